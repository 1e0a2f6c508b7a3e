// Results of collectives, for Ops of any device.
#pragma once
#include <cstring>
#include <initializer_list>
#include <vector>

#include "engine/ops/ops.h"
#include "engine/ranks/communicator.h"

namespace ft::cuda {

using Bytes = std::vector<std::byte>;

// Returns numbers of very different sizes that differ between ranks, so that another order of a sum gives
// another result.
inline Bytes values(DType type, int rank, std::int64_t n) {
  Bytes out(static_cast<std::size_t>(n * size_of(type)));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto mixed = static_cast<std::uint32_t>((i * 2654435761 + rank * 40503 + 7) & 0xffffffff);
    const float f = (static_cast<float>(mixed % 20011) - 10005.f) * (mixed & 1024 ? 1e-4f : 3.f);
    const double wide = f * 1.000000001;
    bf16 narrow;
    from_float(narrow, f);
    std::byte* at = out.data() + i * size_of(type);
    if (type == DType::f64) std::memcpy(at, &wide, sizeof wide);
    if (type == DType::f32) std::memcpy(at, &f, sizeof f);
    if (type == DType::bf16) std::memcpy(at, &narrow, sizeof narrow);
  }
  return out;
}

// Memory of the Ops, filled with these numbers.
class There {
 public:
  There(Ops& ops, DType type, const Bytes& from)
      : ops_(ops),
        memory_(ops.allocate(static_cast<std::int64_t>(from.size()) + 1)),
        tensor(memory_.get(), type, {static_cast<std::int64_t>(from.size()) / size_of(type)}) {
    if (!from.empty()) ops.upload(tensor, from.data());
  }
  void download(Bytes& to) const {
    const std::size_t before = to.size();
    to.resize(before + static_cast<std::size_t>(tensor.bytes()));
    ops_.download(to.data() + before, tensor);
  }

 private:
  Ops& ops_;
  Buffer memory_;

 public:
  Tensor tensor;
};

// Returns the results of all collectives, one after another; sums are of these types.
inline Bytes results(Ops& ops, Communicator& c, std::initializer_list<DType> types) {
  Bytes out;
  for (const DType type : types)
    for (const std::int64_t n : {0, 1, 3, 64, 1001}) {
      const auto own = [&](const There& all) { return all.tensor.elements(n * c.rank(), n); };
      There all(ops, type, values(type, c.rank(), n * c.size())), mine(ops, type, values(type, c.rank(), n)),
          whole(ops, type, values(type, c.rank(), n)),
          gathered(ops, type, values(type, c.rank(), n * c.size()));
      c.all_gather(gathered.tensor, mine.tensor);
      gathered.download(out);
      c.reduce_scatter(mine.tensor, all.tensor);
      c.reduce_scatter(own(all), all.tensor);  // into the rank's part of the input
      c.all_gather(all.tensor, own(all));
      c.all_reduce(whole.tensor);
      for (const There* t : {&all, &mine, &whole}) t->download(out);
      c.all_to_all(gathered.tensor, all.tensor);
      gathered.download(out);
      if (c.size() == 1) continue;
      const int next = (c.rank() + 1) % c.size(), last = (c.rank() + c.size() - 1) % c.size();
      c.send_receive(mine.tensor, next, whole.tensor, last);
      whole.download(out);
      if (c.rank() == 0) c.send_receive(mine.tensor, last, {}, 0);
      if (next == 0) c.send_receive({}, 0, whole.tensor, 0);
      whole.download(out);
    }
  return out;
}

}  // namespace ft::cuda
