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

void keep_stacks_coded(BuiltModel& b) {
  if (!b.made.info.mxfp4) return;
  visit_experts(b, [&](Moe& m) {
    for (ExpertStack* s : {&m.stacks->gate_up, &m.stacks->down}) {
      if (s->matrices.trainable) continue;
      s->keep_in_mxfp4();
      for (const Parameter* p : {&s->coded->codes, &s->coded->scales})
        b.coded_stacks[p->name] = {s->matrices.name, s->matrices.shape};
    }
  });
}

void expect_stacks(const BuiltModel& b) {
  for (const auto& [part, stack] : b.coded_stacks) {
    b.base->expect(stack.name, stack.shape);
    if (!b.base->has(part))
      throw UserError(Exit::input, str(join_path(b.folder, "config.json"),
                                       ": quantization_config: says mxfp4, but the files have no ", part,
                                       "; leave quantization_config out"));
  }
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
