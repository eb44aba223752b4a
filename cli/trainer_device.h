// The trainer's flags of a device, and the device they ask for.
#pragma once

#include <memory>
#include <string>

#include "cli/flags.h"
#include "data/result.h"
#include "runtime/train/training_device.h"

namespace reprise {

struct TrainerDeviceFlags {
  std::string device = "cpu";
  std::string collectives = "auto";
  std::string math = "f32";
  bool no_graph = false;
};

void add_device_flags(Flags& app, TrainerDeviceFlags& flags);

/// Errors: kDevice where there is no such device, or this build cannot use it.
Result<std::unique_ptr<TrainingDevice>> make_training_device(
    const TrainerDeviceFlags& flags);

}  // namespace reprise
