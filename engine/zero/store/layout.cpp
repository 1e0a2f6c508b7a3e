#include "engine/zero/store/layout.h"

#include <numeric>

#include "engine/core/divide.h"
#include "engine/ops/compressed.h"

namespace ft::zero {
namespace {

constexpr std::int64_t kAlign = 256;  // bytes; every parameter begins at a multiple of them

}  // namespace

void bind(const Group& g, Tensor Parameter::*view, const Tensor& all) {
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    Parameter& p = *g.parameters[i];
    p.*view = Tensor(all.data + g.offsets[i] * size_of(all.dtype),
                     all.dtype == DType::u8 ? p.dtype : all.dtype, p.shape);
  }
}

Layout::Layout(const StoreRanks& ranks, const ZeroOptions& options, StatesOf states, bool offloads_values)
    : ranks_(ranks), options_(options), states_(std::move(states)), offloads_values_(offloads_values) {}

Range Layout::held(const Group& g, Placement placement) const {
  if (placement == Placement::replicated) return {0, g.count};
  const Communicator& ranks = ranks_.sharing(g.dealt);
  const std::int64_t each = g.count / ranks.size();
  return {each * ranks.rank(), each};
}

std::int64_t Layout::window(const Group& g) const {
  return round_up(options_.window, Depot::kBlock * common_block(g.specs));
}

int Layout::add_unit(std::string name, const std::vector<Parameter*>& parameters, bool on_demand) {
  Unit& u = units_.emplace_back();
  u.index = units() - 1;
  u.name = std::move(name);
  u.on_demand = on_demand;
  const auto put = [&](bool trained, bool persist) {
    for (Parameter* p : parameters)  // this rank may hold nothing of a parameter
      if (p->trainable == trained && persists(*p) == persist && p->shape.numel() > 0)
        group_for(u, *p).parameters.push_back(p);
  };
  for (const bool trained : {false, true})
    for (const bool persist : {false, true}) put(trained, persist);
  for (Group& g : u.groups) {
    lay_out(g);
    g.index = groups_++;
    g.unit = u.index;
    g.first_trained = trained_;
    trained_ += g.trained ? std::ssize(g.parameters) : 0;
    for (const Parameter* p : g.parameters) u.elements += g.transient ? p->shape.numel() : 0;
  }
  return u.index;
}

// Returns true if a parameter is sent in codes. Parts of 4-bit weights are coded already. Vectors are short
// and sensitive to errors.
bool Layout::is_coded(const Parameter& p) const {
  const bool numbers = p.dtype == DType::f32 || p.dtype == DType::bf16 || p.dtype == DType::f16;
  return ranks_.shards.size() > 1 && !persists(p) && p.shape.rank >= 2 && numbers && !p.stands_for;
}

Group& Layout::group_for(Unit& u, const Parameter& p) {
  const bool persist = persists(p), dealt = p.dealt && ranks_.experts, coded = is_coded(p);
  const bool coded_values = coded && options_.coded_values,
             coded_grads = coded && options_.coded_grads && p.trainable,
             of_one_type = p.trainable || coded_values;
  const auto specs = p.trainable ? states(p) : std::span<const StateSpec>();
  for (Group& g : u.groups)
    if (g.trained == p.trainable && g.persist == persist && g.dealt == dealt &&
        g.coded_values == coded_values && g.coded_grads == coded_grads && g.at_both_ends == p.at_both_ends &&
        std::ranges::equal(g.specs, specs) && (!of_one_type || g.dtype == p.dtype))
      return g;
  Group& g = u.groups.emplace_back();
  g.trained = p.trainable;
  g.persist = persist;
  g.dealt = dealt;
  g.at_both_ends = p.at_both_ends;
  g.coded_values = coded_values;
  g.coded_grads = coded_grads;
  g.stage = options_.stage;
  if (persist || ranks_.sharing(dealt).size() == 1) g.stage.params = Placement::replicated;
  g.transient = g.stage.params == Placement::sharded || (offloads_values_ && !persist);
  g.specs.assign(specs.begin(), specs.end());
  g.dtype = of_one_type ? p.dtype : DType::u8;
  return g;
}

// Parameters that are sent in codes begin at a block of codes.
void Layout::lay_out(Group& g) const {
  const bool coded = g.coded_values || g.coded_grads;
  const std::int64_t least = std::lcm(kAlign / size_of(g.dtype), common_block(g.specs)),
                     align = coded ? std::lcm(least, op::kWireBlock) : least;
  for (const Parameter* p : g.parameters) {
    require(g.dtype == DType::u8 || p->dtype == g.dtype, "trained parameters of a unit have one dtype");
    g.offsets.push_back(g.count);
    g.count += round_up(g.size(*p), align);
  }
  g.count = round_up(g.count, align * ranks_.sharing(g.dealt).size());
}

Communicator::Ticket Layout::start(const Unit& u,
                                   const std::function<void(Communicator&, const Group&)>& each) const {
  // If states are replicated, one all_reduce serves all groups of ranks at once.
  const bool at_once = options_.stage.states == Placement::replicated;
  Communicator::Ticket last = 0;
  for (const bool dealt : {false, true}) {
    Communicator& ranks = at_once && !dealt ? ranks_.all : ranks_.sharing(dealt);
    const auto own = [dealt](const Group& g) { return g.dealt == dealt; };
    if (std::ranges::any_of(u.groups, own))
      last = ranks.start([&u, own, each](Communicator& c) {
        c.enter(u.name);
        for (const Group& g : u.groups)
          if (own(g)) each(c, g);
      });
  }
  return last;
}

}  // namespace ft::zero
