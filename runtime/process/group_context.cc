// Gloo's collectives look whether there is a pair and reach a peer through
// unbound buffers alone, so renumbering these two is all that a group needs.
#include "runtime/process/group_context.h"

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "data/result.h"

namespace reprise {
namespace {

using gloo::transport::UnboundBuffer;

class GroupBuffer final : public UnboundBuffer {
 public:
  GroupBuffer(std::unique_ptr<UnboundBuffer> mesh,
              const std::vector<int>& members)
      : UnboundBuffer(mesh->ptr, mesh->size),
        mesh_(std::move(mesh)),
        members_(members) {}

  using UnboundBuffer::waitRecv;
  using UnboundBuffer::waitSend;
  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    const bool done = mesh_->waitRecv(rank, timeout);
    renumber(rank);
    return done;
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    const bool done = mesh_->waitSend(rank, timeout);
    renumber(rank);
    return done;
  }
  void abortWaitRecv() override { mesh_->abortWaitRecv(); }
  void abortWaitSend() override { mesh_->abortWaitSend(); }

  void send(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    mesh_->send(in_mesh(rank), slot, offset, bytes);
  }
  void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    mesh_->recv(in_mesh(rank), slot, offset, bytes);
  }
  void recv(std::vector<int> ranks, uint64_t slot, size_t offset,
            size_t bytes) override {
    for (int& rank : ranks) rank = in_mesh(rank);
    mesh_->recv(std::move(ranks), slot, offset, bytes);
  }

 private:
  int in_mesh(int rank) const { return members_.at(static_cast<size_t>(rank)); }
  void renumber(int* rank) const {
    if (rank == nullptr) return;
    const auto found = std::find(members_.begin(), members_.end(), *rank);
    *rank = static_cast<int>(found - members_.begin());
  }

  std::unique_ptr<UnboundBuffer> mesh_;
  const std::vector<int>& members_;  ///< Of the context that made it.
};

class GroupTransport final : public gloo::transport::Context {
 public:
  GroupTransport(gloo::Context& mesh, const std::vector<int>& members,
                 int own_rank)
      : gloo::transport::Context(own_rank, static_cast<int>(members.size())),
        mesh_(mesh),
        members_(members) {
    setTimeout(mesh.getTimeout());
  }

  std::unique_ptr<gloo::transport::Pair>& getPair(int member) override {
    return mesh_.getPair(members_.at(static_cast<size_t>(member)));
  }
  std::unique_ptr<gloo::transport::Pair>& createPair(int) override {
    throw std::logic_error("a group has the connections of its mesh");
  }
  std::unique_ptr<UnboundBuffer> createUnboundBuffer(
      void* data, size_t size_bytes) override {
    return std::make_unique<GroupBuffer>(
        mesh_.createUnboundBuffer(data, size_bytes), members_);
  }

 private:
  gloo::Context& mesh_;
  const std::vector<int> members_;
};

class GroupContext final : public gloo::Context {
 public:
  GroupContext(gloo::Context& mesh, const std::vector<int>& members,
               int own_rank)
      : gloo::Context(own_rank, static_cast<int>(members.size())) {
    transportContext_ =
        std::make_shared<GroupTransport>(mesh, members, own_rank);
    gloo::Context::setTimeout(mesh.getTimeout());
  }
};

}  // namespace

std::shared_ptr<gloo::Context> make_group_context(
    gloo::Context& mesh, const std::vector<int>& members) {
  const auto own = std::find(members.begin(), members.end(), mesh.rank);
  REPRISE_CHECK(own != members.end());
  return std::make_shared<GroupContext>(
      mesh, members, static_cast<int>(own - members.begin()));
}

}  // namespace reprise
