// Values that are not on the device: copies in a depot or, for frozen values that a model file has in exactly
// these bytes, reads from that file.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/zero/store/reading.h"

namespace ft::zero {

class OffloadedValues {
 public:
  OffloadedValues(const Layout& layout, std::shared_ptr<Depot> depot)
      : layout_(layout), depot_(std::move(depot)) {}
  void reserve(const Group&);
  void load(const Group&, const ReadParameter&);  // frozen values
  // Starts to fetch this rank's values; empty: it has none.
  std::optional<Depot::Ticket> fetch(const Group&, const Tensor& to);
  void finish(Depot::Ticket ticket) { depot_->finish(ticket); }
  Away away(const Group& g) const { return places_[index(g)].away; }  // of trained values

 private:
  struct Piece {                // frozen values, in the depot's file or in the model's
    std::int64_t first, count;  // bytes of this rank's data
    Away away;
    bool stored, numbers;  // in the model's file; numbers, not codes
  };
  struct Place {
    Away away;                  // trained values
    std::vector<Piece> pieces;  // frozen values; padding is in no piece
  };
  static std::size_t index(const Group& g) { return static_cast<std::size_t>(g.index); }
  void reserve_frozen(const Group&, std::vector<Piece>&);

  const Layout& layout_;
  const std::shared_ptr<Depot> depot_;
  std::vector<Place> places_;  // indexed by Group::index
};

}  // namespace ft::zero
