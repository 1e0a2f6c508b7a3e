#include "engine/train/snapshot.h"

#include <cstring>

#include "engine/train/part_filler.h"
#include "engine/zero/host_pieces.h"

namespace ft {
namespace {

constexpr std::int64_t kAlign = 64;  // bytes

std::int64_t room_of(const Tensor& values) { return round_up(values.bytes(), kAlign); }

}  // namespace

std::int64_t snapshot_bytes(ParameterStore& store, ParameterStore* critic) {
  std::int64_t bytes = store.parts().most_bytes(store.parts().keeps_gradients(), kAlign);
  if (critic) bytes += critic->parts().most_bytes(false, kAlign);
  return round_up(bytes, Depot::kBlock);
}

void Snapshot::clear() {
  count_ = 0;
  used_ = 0;
}

Tensor Snapshot::take(const FilePlace& place, const Parameter* parameter, std::int64_t first,
                      const Tensor& like) {
  require(used_ + room_of(like) <= memory_->size(), "the snapshot is smaller than the plan said");
  const Tensor copy(memory_->in_place(used_), like.dtype, like.shape);
  used_ += room_of(like);
  if (count_ == copies_.size()) copies_.emplace_back();
  copies_[count_++] = {place, parameter, first, copy};
  return copy;
}

void Snapshot::part(const FilePlace& place, const Parameter& p, std::int64_t first, HostPieces& pieces,
                    const Tensor& values) {
  pieces.copy_to(take(place, &p, first, values).data, values);
}

void Snapshot::values(const std::string& name, std::int64_t first, const Tensor& host) {
  const Tensor copy = take({name}, nullptr, first, host);
  if (host.bytes() > 0) std::memcpy(copy.data, host.data, static_cast<std::size_t>(host.bytes()));
}

void Snapshot::fill_in(const std::string& folder) const {
  SafetensorsFiller filler(folder);
  for (std::size_t i = 0; i < count_; ++i) {
    const Copy& c = copies_[i];
    if (c.parameter)
      write_part(filler, c.place, *c.parameter, c.first, c.values);
    else
      filler.write(c.place.name, c.first, c.values);
  }
  filler.sync();
}

}  // namespace ft
