// Independent items on several threads, by oneTBB.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace reprise {

/// Calls work(i) for each i below `count`, in that order, on at most `threads`
/// threads, one a core, the caller's among them; returns when all calls have.
/// The first exception that a call throws ends the loop and is thrown here.
void parallel_for(size_t count, size_t threads,
                  const std::function<void(size_t)>& work);

/// Threads that stay, for short loops one after the other: nothing is made or
/// allocated for each.
class ThreadTeam {
 public:
  /// `threads`, the caller of `run` among them; of the others each calls
  /// `enter` before it first works. They run where the thread that makes the
  /// team may. Fewer come where the process has fewer cores, for as many parts.
  ThreadTeam(size_t threads, void (*enter)());
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  size_t size() const;

  /// Calls work(i) for each i below `count`, in any order; returns when all
  /// calls have. One loop at a time. Requires: `work` throws nothing.
  template <typename Work>
  void run(size_t count, const Work& work) {
    run_calls(count, {&work, [](const void* what, size_t i) {
                        (*static_cast<const Work*>(what))(i);
                      }});
  }

 private:
  struct Arena;
  struct Call {
    const void* what;
    void (*function)(const void* what, size_t i);
  };
  void run_calls(size_t count, const Call& call);

  std::unique_ptr<Arena> arena_;
};

}  // namespace reprise
