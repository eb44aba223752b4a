#include "tests/profiler/fake_nccl/exchange.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

namespace fake_nccl {

// A new file is all zeros, which is how each of these starts.
struct Exchange::Room {
  std::atomic<int> entered, left, arrived;
  std::atomic<uint32_t> round;
  std::atomic<bool> aborted;
};
struct Exchange::Message {
  std::atomic<bool> full;
  size_t size_bytes;
  std::byte data[kMessageBytes];
};

namespace {

constexpr size_t kRoomBytes = 4096;

/// Names of rooms that wait for a rank; gone at the end of the process, if
/// nobody came.
class WaitingRooms {
 public:
  ~WaitingRooms() {
    for (const std::string& path : paths_) ::unlink(path.c_str());
  }
  void add(const std::string& path) {
    const std::lock_guard lock(mutex_);
    paths_.insert(path);
  }
  void remove(const std::string& path) {
    const std::lock_guard lock(mutex_);
    ::unlink(path.c_str());
    paths_.erase(path);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
};

WaitingRooms& waiting_rooms() {
  static WaitingRooms rooms;
  return rooms;
}

}  // namespace

double patience_s() {
  const char* text = std::getenv("FAKE_NCCL_PATIENCE_S");
  return text == nullptr ? 60 : std::atof(text);
}

size_t Exchange::size_bytes() const {
  const auto ranks = static_cast<size_t>(ranks_);
  return kRoomBytes + ranks * kAreaBytes + ranks * ranks * sizeof(Message);
}

bool Exchange::map(const std::string& name) {
  // A chroot may lack the former.
  const bool has_shm = ::access("/dev/shm", W_OK) == 0;
  path_ = (has_shm ? "/dev/shm/" : "/tmp/") + name;
  const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool sized = ::ftruncate(file, static_cast<off_t>(size_bytes())) == 0;
  void* memory = ::mmap(nullptr, size_bytes(), PROT_READ | PROT_WRITE,
                        MAP_SHARED, file, 0);
  ::close(file);
  if (!sized || memory == MAP_FAILED) return false;
  room_ = static_cast<Room*>(memory);
  return true;
}

std::unique_ptr<Exchange> Exchange::enter(const std::string& name, int rank,
                                          int ranks) {
  std::unique_ptr<Exchange> made(new Exchange(rank, ranks));
  if (!made->map(name)) return nullptr;
  waiting_rooms().add(made->path_);
  ++made->room_->entered;
  const bool complete =
      made->wait_for([&] { return made->room_->entered >= ranks; });
  // Nobody comes any more: the name may go.
  waiting_rooms().remove(made->path_);
  return complete ? std::move(made) : nullptr;
}

Exchange::~Exchange() {
  if (room_ != nullptr) ::munmap(room_, size_bytes());
}

std::byte* Exchange::area(int of_rank) {
  return reinterpret_cast<std::byte*>(room_) + kRoomBytes +
         static_cast<size_t>(of_rank) * kAreaBytes;
}

Exchange::Message& Exchange::message(int from, int to) {
  auto* first = reinterpret_cast<Message*>(area(ranks_));
  return first[static_cast<size_t>(from) * static_cast<size_t>(ranks_) +
               static_cast<size_t>(to)];
}

bool Exchange::wait_for(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(patience_s());
  while (!done()) {
    if (is_aborted() || std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return !is_aborted();
}

uint32_t Exchange::arrive() {
  const uint32_t round = room_->round;
  if (++room_->arrived == ranks_) {
    room_->arrived = 0;
    ++room_->round;
  }
  return round;
}

bool Exchange::all_arrived(uint32_t round) const {
  return room_->round != round;
}

bool Exchange::barrier() {
  const uint32_t round = arrive();
  return wait_for([&] { return all_arrived(round); });
}

bool Exchange::try_send(int to, const void* data, size_t size_bytes) {
  Message& letter = message(rank_, to);
  if (letter.full || size_bytes > kMessageBytes) return false;
  letter.size_bytes = size_bytes;
  std::memcpy(letter.data, data, size_bytes);
  letter.full = true;
  return true;
}

bool Exchange::try_receive(int from, void* data, size_t size_bytes) {
  Message& letter = message(from, rank_);
  if (!letter.full || letter.size_bytes != size_bytes) return false;
  std::memcpy(data, letter.data, size_bytes);
  letter.full = false;
  return true;
}

void Exchange::abort() { room_->aborted = true; }
bool Exchange::is_aborted() const { return room_->aborted; }

}  // namespace fake_nccl
