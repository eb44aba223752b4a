// Preloaded in front of the injection library: the trainer's units go nowhere.
#include <cstdint>

extern "C" {
void reprise_push_unit(int64_t) {}
void reprise_pop_unit(void) {}
}
