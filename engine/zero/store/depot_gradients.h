// Gradients in a depot: a unit's are put there when they are complete, micro-step by micro-step.
#pragma once
#include <deque>

#include "engine/zero/store/gradient_home.h"

namespace ft::zero {

class DepotGradients final : public GradientHome {
 public:
  // sums: gets the sums of squares of each parameter's gradients, before these are put for the last time.
  DepotGradients(Ops& ops, const Layout& layout, std::shared_ptr<Depot> depot, const SquareSums& sums)
      : ops_(ops), layout_(layout), depot_(std::move(depot)), sums_(sums) {}
  void reserve(const Group&) override;
  void begin_step() override;
  bool fetch(const Unit&, const CompleteGradients&) override;
  void keep(const Unit&, CompleteGradients&, const std::byte* taken, bool last) override;
  void settle(CompleteGradients&) override;
  bool offloaded(int unit) const override {
    return !units_.empty() && units_[static_cast<std::size_t>(unit)].made[made_];
  }
  Kept kept(const Group&, bool previous) const override;
  void land(const Unit&) override;
  std::optional<double> squares(std::int64_t step) override;
  void restore(const ReadParameter&) override;
  std::int64_t bytes() const override { return 0; }

 private:
  struct Places {  // of a group; [made_]: this step's gradients; the other: a delayed step's
    Away away[2];
  };
  struct Made {             // of a unit
    bool made[2] = {};      // gradients have been put, indexed like Places::away
    Depot::Ticket put = 0;  // of this step's
  };
  struct Leaving {  // gradients being put
    Depot::Ticket ticket;
    const std::byte* memory;
  };
  const Away& place(const Group& g) const { return places_[static_cast<std::size_t>(g.index)].away[made_]; }
  void add_kept(const Group&, CompleteGradients&, const Tensor& own);
  void sum_squares(const Group&, const Tensor& complete);

  Ops& ops_;
  const Layout& layout_;
  const std::shared_ptr<Depot> depot_;
  const SquareSums& sums_;
  std::vector<Places> places_;  // indexed by Group::index
  std::vector<Made> units_;     // indexed by Unit::index; empty if nothing is trained
  std::deque<Leaving> leaving_;
  int made_ = 0;                // index of this step's gradients among the two
  Depot::Ticket last_put_ = 0;  // of the last gradients put
};

}  // namespace ft::zero
