#include "engine/zero/store/reading.h"

#include <cstring>

#include "engine/ops/ops.h"

namespace ft::zero {

// Reads in place on a CPU, through host memory otherwise.
void read(Ops& ops, const Group& g, const Tensor& to, Range range, const ReadParameter& source) {
  if (ops.device().kind == Device::Kind::cpu) return read_to_host(g, to, range, source);
  std::vector<std::byte> staging;
  read_to_host(g, to, range, [&](const Parameter& p, const Tensor& here, std::int64_t first) {
    staging.resize(static_cast<std::size_t>(here.bytes()));
    source(p, {staging.data(), here.dtype, here.shape}, first);
    ops.upload(here, staging.data());
    ops.synchronize();
  });
}

// Ranges begin and end at multiples of every type's size.
void read_to_host(const Group& g, const Tensor& to, Range range, const ReadParameter& source) {
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Parameter& p = *g.parameters[i];
    const Range part = g.part(i, range);
    if (part.count == 0) continue;
    const std::int64_t size = g.dtype == DType::u8 ? size_of(p.dtype) : 1;  // of an element of the parameter
    const Tensor here(to.data + (part.first - range.first) * size_of(to.dtype),
                      g.dtype == DType::u8 ? p.dtype : to.dtype, {part.count / size});
    source(p, here, (part.first - g.offsets[i]) / size);
  }
}

// Copies a few MiB at a time, reading the next piece while the last is put.
void read_away(const Group& g, const Away& to, Range range, DType dtype, const ReadParameter& source) {
  const std::int64_t most = (std::int64_t{4} << 20) / size_of(dtype);
  Depot& depot = to.depot->for_host();
  std::vector<std::byte> pieces[2];
  Depot::Ticket puts[2] = {};
  for (std::int64_t at = 0, turn = 0; at < range.count; at += most, turn ^= 1) {
    const std::int64_t count = std::min(most, range.count - at);
    const std::int64_t bytes = count * size_of(dtype), place = to.at + at * size_of(dtype);
    depot.finish(puts[turn]);
    pieces[turn].assign(static_cast<std::size_t>(bytes), std::byte{});
    read_to_host(g, {pieces[turn].data(), dtype, {count}}, {range.first + at, count}, source);
    if (std::byte* there = depot.in_place(place))
      std::memcpy(there, pieces[turn].data(), static_cast<std::size_t>(bytes));
    else
      puts[turn] = depot.put(place, {pieces[turn].data(), dtype, {count}});
  }
  for (const Depot::Ticket t : puts) depot.finish(t);
}

}  // namespace ft::zero
