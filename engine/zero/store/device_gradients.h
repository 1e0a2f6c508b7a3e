// Gradients on the device.
#pragma once
#include "engine/zero/store/gradient_home.h"

namespace ft::zero {

class DeviceGradients final : public GradientHome {
 public:
  DeviceGradients(Ops& ops, const Layout& layout) : ops_(ops), layout_(layout) {}
  void reserve(const Group&) override;
  void begin_step() override;
  void complete(const Unit&) override;
  void keep(const Unit&, CompleteGradients&, const std::byte* taken, bool last) override;
  Kept kept(const Group& g, bool /*previous*/) const override { return {of(g).tensor, {}}; }
  std::int64_t bytes() const override;

 private:
  const OwnTensor& of(const Group& g) const { return own_[static_cast<std::size_t>(g.index)]; }
  void clear(const Group&);

  Ops& ops_;
  const Layout& layout_;
  std::vector<OwnTensor> own_;  // (held elements) of each trained group; indexed by Group::index
};

}  // namespace ft::zero
