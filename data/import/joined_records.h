// PyTorch's two records of one run, Kineto's and the execution trace, as the
// reports of an import tell of them.
#pragma once

#include <span>
#include <vector>

#include "data/formats/pytorch_et/pytorch_et_join.h"
#include "data/formats/reader.h"

namespace reprise {

/// Whether there are ranks of both records. Requires: ranks are numbered.
bool has_both_records(std::span<const FileReport> files);

/// Who imports both records of a rank need not be told to. Requires: as above.
void forget_advice_taken(std::vector<FileReport>& files);

/// Says at the first execution trace how many of its nodes found their op.
void note_join(const ExecutionTraceJoin& join, std::vector<FileReport>& files);

}  // namespace reprise
