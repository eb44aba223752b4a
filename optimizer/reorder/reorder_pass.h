// Reordering as a pass: the list schedule of the best plan's units, then local
// search and exact windows on them (optimizer/order), whose compute order other
// passes' edits start from.
#pragma once

#include "optimizer/search/pass.h"

namespace reprise {

PassEntry reorder_pass();

}  // namespace reprise
