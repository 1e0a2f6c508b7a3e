#include "engine/dist/staged_communicator.h"

#include <algorithm>

namespace ft {

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

// A piece but the last is a multiple of the ranks, so that what travels is what one piece would take.
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

std::unique_ptr<Communicator> StagedCommunicator::split(std::vector<int> members) {
  return std::make_unique<StagedCommunicator>(device_, host_->split(std::move(members)), why_,
                                              static_cast<std::int64_t>(room_.size()));
}

}  // namespace ft
