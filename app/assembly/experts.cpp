#include "app/assembly/experts.h"

#include "app/assembly/shared_layers.h"

namespace ft {
namespace {

constexpr const char* kDealt = "distributed.expert_parallel_size";

class EachMoe final : public Visitor {
 public:
  explicit EachMoe(std::function<void(Moe&)> f) : f_(std::move(f)) {}
  void experts(Moe& m) override {
    f_(m);
    ++count_;
  }
  int count() const { return count_; }

 private:
  std::function<void(Moe&)> f_;
  int count_ = 0;
};

int visit_experts(const BuiltModel& b, std::function<void(Moe&)> f) {
  EachMoe each(std::move(f));
  b.model().visit(each);
  return each.count();
}

void visit_experts(BuiltModel& b, const char* setting, std::function<void(Moe&)> f) {
  if (visit_experts(b, std::move(f)) == 0)
    throw UserError(Exit::config, str(setting, ": ", b.name, " has no experts; leave it out"));
}

}  // namespace

bool has_experts(const BuiltModel& b) {
  return visit_experts(b, [](Moe&) {}) > 0;
}

void limit_experts(BuiltModel& b, const RunConfig& config) {
  if (const auto factor = config.model.capacity_factor)
    visit_experts(b, "model.capacity_factor", [&](Moe& m) { m.capacity_factor = *factor; });
}

void deal_experts(BuiltModel& b, const RunConfig& config, TensorRank t) {
  if (t.size == 1) return;
  visit_experts(b, kDealt, [&](Moe& m) { m.share(t); });
  require_elementwise(b, config, kDealt);
}

}  // namespace ft
