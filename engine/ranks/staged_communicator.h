// Collectives of device tensors through host memory: downloaded, exchanged between the hosts, uploaded, a few
// MiB at a time. The bytes sent and the order of every sum are the inner communicator's, so that the results
// have the same bits as on CPUs. Needs only the network: for GPUs without NCCL, and for tests.
#pragma once
#include <memory>
#include <vector>

#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"

namespace ft {

class StagedCommunicator final : public Communicator {
 public:
  // device: must allow copies from another thread than the computing one; copies wait for everything queued
  // before them. host: sums element by element. why: the reason for this transport, for people, or empty.
  // room: bytes of host memory.
  static constexpr std::int64_t kRoom = 16 << 20;
  StagedCommunicator(Ops& device, std::unique_ptr<Communicator> host, std::string why = "",
                     std::int64_t room = kRoom)
      : device_(device),
        host_(std::move(host)),
        why_(std::move(why)),
        room_(static_cast<std::size_t>(room)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void all_gather(Tensor all, Tensor mine) override;
  void reduce_scatter(Tensor mine, Tensor all) override;
  void all_reduce(Tensor x) override;
  void all_to_all(Tensor to, Tensor from) override;
  void send_receive(Tensor out, int to, Tensor in, int from) override;
  void all_gather_host(std::span<std::byte> all) override { host_->all_gather_host(all); }
  void broadcast(std::span<std::byte> host, int root) override { host_->broadcast(host, root); }
  void transfer(std::span<std::byte> host, int from, int to) override { host_->transfer(host, from, to); }
  void barrier() override { host_->barrier(); }
  void abandon() override { host_->abandon(); }
  std::unique_ptr<Communicator> split(RankSubset group) override;
  void at_step(std::int64_t step) override { host_->at_step(step); }
  void enter(std::string_view what) override { host_->enter(what); }
  std::string via() const override { return host_->via() + " through the host" + why_; }
  std::int64_t sent() const override { return host_->sent(); }

 private:
  // Calls visit(first, count, host tensor of size() x count) for consecutive pieces of each rank's `count`
  // elements, each as long as the room allows.
  template <class Visit>
  void in_pieces(DType, std::int64_t count, const Visit& visit);

  Ops& device_;
  std::unique_ptr<Communicator> host_;
  std::string why_;
  std::vector<std::byte> room_;
};

}  // namespace ft
