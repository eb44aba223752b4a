#include "data/formats/synchronization_name.h"

namespace reprise {

std::string_view synchronization_name(SynchronizationKind kind) {
  switch (kind) {
    case SynchronizationKind::kEvent:
      return "Event Sync";
    case SynchronizationKind::kStreamWait:
      return "Stream Wait Event";
    case SynchronizationKind::kStream:
      return "Stream Sync";
    case SynchronizationKind::kDevice:
      return "Context Sync";
    case SynchronizationKind::kUnknown:
      break;
  }
  return "Sync";
}

}  // namespace reprise
