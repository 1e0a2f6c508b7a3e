#include "engine/ranks/staged_communicator.h"

#include <algorithm>

#include "engine/ops/ops.h"

namespace ft {
namespace {

Tensor flat(const Tensor& t) { return t.view({t.numel()}); }

}  // namespace

template <class Visit>
void StagedCommunicator::in_pieces(DType dtype, std::int64_t count, const Visit& visit) {
  const auto room = static_cast<std::int64_t>(room_.size());
  const std::int64_t most = room / (size() * size_of(dtype));
  require(most > 0, "too little memory to pass through");
  for (std::int64_t first = 0; first < count; first += most) {
    const std::int64_t now = std::min(most, count - first);
    visit(first, now, Tensor(room_.data(), dtype, {now * size()}));
  }
}

void StagedCommunicator::all_gather(Tensor all, Tensor mine) {
  const std::int64_t each = mine.numel();
  require(all.numel() == each * size() && all.dtype == mine.dtype, "all_gather: sizes");
  in_pieces(all.dtype, each, [&](std::int64_t first, std::int64_t count, const Tensor& host) {
    const Tensor own = host.elements(count * rank(), count);
    device_.download(own.data, mine.elements(first, count));
    host_->all_gather(host, own);
    for (int r = 0; r < size(); ++r)
      device_.upload(all.elements(each * r + first, count), host.elements(count * r, count).data);
  });
}

void StagedCommunicator::reduce_scatter(Tensor mine, Tensor all) {
  const std::int64_t each = mine.numel();
  require(all.numel() == each * size() && all.dtype == mine.dtype, "reduce_scatter: sizes");
  in_pieces(all.dtype, each, [&](std::int64_t first, std::int64_t count, const Tensor& host) {
    for (int r = 0; r < size(); ++r)
      device_.download(host.elements(count * r, count).data, all.elements(each * r + first, count));
    const Tensor own = host.elements(count * rank(), count);
    host_->reduce_scatter(own, host);
    device_.upload(mine.elements(first, count), own.data);
  });
}

// Every piece but the last divides by the number of ranks, so that the pieces together send the bytes of one
// all_reduce.
void StagedCommunicator::all_reduce(Tensor x) {
  const std::int64_t most = static_cast<std::int64_t>(room_.size()) / size_of(x.dtype) / size() * size();
  require(most > 0, "too little memory to pass through");
  for (std::int64_t first = 0; first < x.numel(); first += most) {
    const Tensor device = x.elements(first, std::min(most, x.numel() - first));
    const Tensor host(room_.data(), x.dtype, device.shape);
    device_.download(host.data, device);
    host_->all_reduce(host);
    device_.upload(device, host.data);
  }
}

// Sends from the first half of the room, receives into the second.
void StagedCommunicator::all_to_all(Tensor to, Tensor from) {
  require(to.numel() == from.numel() && to.numel() % size() == 0 && to.dtype == from.dtype,
          "all_to_all: sizes");
  const std::int64_t each = to.numel() / size();
  const std::int64_t most = static_cast<std::int64_t>(room_.size()) / size_of(to.dtype) / size() / 2;
  require(most > 0, "too little memory to pass through");
  for (std::int64_t first = 0; first < each; first += most) {
    const std::int64_t count = std::min(most, each - first);
    const Tensor host(room_.data(), to.dtype, {2 * count * size()});
    const Tensor leaving = host.elements(0, count * size()),
                 arriving = host.elements(count * size(), count * size());
    for (int r = 0; r < size(); ++r)
      device_.download(leaving.elements(count * r, count).data, flat(from).elements(each * r + first, count));
    host_->all_to_all(arriving, leaving);
    for (int r = 0; r < size(); ++r)
      device_.upload(flat(to).elements(each * r + first, count), arriving.elements(count * r, count).data);
  }
}

// Sends pieces of one message each. The other end has as many pieces, of the same sizes.
void StagedCommunicator::send_receive(Tensor out, int to, Tensor in, int from) {
  const auto bytes = [](const Tensor& t) { return t ? t.bytes() : std::int64_t{0}; };
  const auto whole = [&](const Tensor& t) { return Tensor(t.data, DType::u8, {bytes(t)}); };
  const std::int64_t most = static_cast<std::int64_t>(room_.size()) / 2;
  const auto piece = [&](const Tensor& t, std::int64_t first) {
    const std::int64_t count = std::clamp<std::int64_t>(bytes(t) - first, 0, most);
    return count > 0 ? whole(t).elements(first, count) : Tensor{};
  };
  for (std::int64_t first = 0; first < std::max(bytes(out), bytes(in)); first += most) {
    const Tensor leaves = piece(out, first), comes = piece(in, first);
    const Tensor leaving = leaves ? Tensor(room_.data(), DType::u8, leaves.shape) : Tensor{},
                 arriving = comes ? Tensor(room_.data() + most, DType::u8, comes.shape) : Tensor{};
    if (leaves) device_.download(leaving.data, leaves);
    host_->send_receive(leaving, to, arriving, from);
    if (comes) device_.upload(comes, arriving.data);
  }
}

std::unique_ptr<Communicator> StagedCommunicator::split(RankSubset group) {
  return std::make_unique<StagedCommunicator>(device_, host_->split(std::move(group)), why_,
                                              static_cast<std::int64_t>(room_.size()));
}

}  // namespace ft
