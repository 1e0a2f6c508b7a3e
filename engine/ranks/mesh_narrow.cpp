// f32 sums sent in 16 bits. A round sends as many elements as a round in f32: received data takes half of a
// piece's bytes, and data to send the other half.
#include "engine/ranks/mesh_communicator.h"

namespace ft {
namespace {

constexpr std::int64_t kWire = 2;  // bytes of an element

std::span<std::byte> bytes(std::byte* at, std::int64_t elements) {
  return {at, static_cast<std::size_t>(elements * kWire)};
}

}  // namespace

std::byte* MeshCommunicator::arrival(int member) const {
  return wires_->arrived.get() + (member < rank() ? member : member - 1) * wires_->piece;
}

std::byte* MeshCommunicator::departure(int member) const { return arrival(member) + wires_->piece / 2; }

void MeshCommunicator::sum_narrow(Collective what, Tensor mine, Tensor all,
                                  const std::vector<Range>& ranges) {
  const Wire& wire = wires_->wire;
  const std::int64_t most = wires_->piece / 2 / kWire;
  std::vector<const std::byte*> arrived(members_.size());
  for (std::int64_t from = 0; from == 0 || from < longest(ranges); from += most) {
    const auto piece = [&](int r) { return ranges[static_cast<std::size_t>(r)].piece(from, most); };
    const Range own = piece(rank());
    clear_parcels();
    for (int r = 0; r < size(); ++r) {
      arrived[static_cast<std::size_t>(r)] = r == rank() ? nullptr : arrival(r);
      if (r == rank()) continue;
      const Range theirs = piece(r);
      to_wire(wire, departure(r), all.as<float>() + theirs.first, theirs.count);
      parcel(r) = {.out = bytes(departure(r), theirs.count), .in = bytes(arrival(r), own.count)};
    }
    exchange(what);
    add_wires(wire, mine.as<float>() + std::min(from, mine.numel()), all.as<float>() + own.first, arrived,
              own.count);
  }
}

// The sums are already rounded to the 16-bit type, so sending does not round them again.
void MeshCommunicator::gather_narrow(Collective what, Tensor all, const std::vector<Range>& ranges) {
  const Wire& wire = wires_->wire;
  const std::int64_t most = wires_->piece / 2 / kWire;
  for (std::int64_t from = 0; from == 0 || from < longest(ranges); from += most) {
    const auto piece = [&](int r) { return ranges[static_cast<std::size_t>(r)].piece(from, most); };
    const Range own = piece(rank());
    std::byte* const leaving = departure(rank() == 0 ? 1 : 0);
    to_wire(wire, leaving, all.as<float>() + own.first, own.count);
    clear_parcels();
    for (int r = 0; r < size(); ++r)
      if (r != rank())
        parcel(r) = {.out = bytes(leaving, own.count), .in = bytes(arrival(r), piece(r).count)};
    exchange(what);
    for (int r = 0; r < size(); ++r)
      if (r != rank()) from_wire(wire, all.as<float>() + piece(r).first, arrival(r), piece(r).count);
  }
}

}  // namespace ft
