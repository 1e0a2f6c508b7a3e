// Where parameters, gradients and optimizer states live: all of ZeRO (Rajbhandari et al., "ZeRO: memory
// optimizations toward training trillion parameter models", SC 2020). Each of the three is replicated or
// sharded; a stage is a name for three such layouts and is not used once they are chosen.
//
// A unit (the embedding, one block, the head) is gathered and reduced as a whole. Its frozen and its trained
// parameters lie in separate flat buffers, padded so that they divide into equal pieces for the ranks; small
// ones, which stay whole under every stage, have their own. Frozen parameters may have several types (codes
// of 4-bit weights, scales, norms): their buffer is one of bytes. Trained ones have one type, an f32 master
// (the value itself in an f32 run), an f32 gradient and the states that the optimizer declares.
//
// Ranks may form groups that each hold everything between them (MiCS, Zhang et al., VLDB 2022): "sharded"
// then means within a group.
#pragma once
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/heap.h"
#include "engine/dist/communicator.h"
#include "engine/dist/parameter.h"
#include "engine/dist/state_spec.h"
#include "engine/ops/ops.h"

namespace ft {

enum class Layout : std::uint8_t { replicated, sharded };

struct ZeroStage {
  Layout params, grads, states;
  static constexpr ZeroStage of(int stage) {
    auto from = [stage](int first) { return stage >= first ? Layout::sharded : Layout::replicated; };
    return {.params = from(3), .grads = from(2), .states = from(1)};
  }
};

// Elements are those of the stored tensors; a byte of 4-bit codes is one.
struct ZeroOptions {
  ZeroStage stage;
  int group = 0;             // ranks that share everything out; divides their number. 0: all
  std::int64_t persist = 0;  // parameters with at most this many elements are never sharded
  // Where values are sharded, units are prefetched until this many elements are in flight, as long as no more
  // than `max_live` are whole at the same time, including those in use and persistent ones. A unit in use is
  // whole whatever the limit.
  std::int64_t prefetch = 0, max_live = std::numeric_limits<std::int64_t>::max();
  bool overlap = true;  // gather ahead, and reduce a unit while the next one is computed
};

// Bytes of this rank.
struct StoreMemory {
  std::int64_t weights = 0;  // frozen values
  std::int64_t trained = 0;  // trained values
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;      // states, and f32 masters where the values are narrower
  std::int64_t communication = 0;  // gathered values and gradients; buffers of the communicator
};

// Bytes for what is whole only for a while.
struct TransientMemory {
  std::int64_t values = 0, grads = 0;
};
inline constexpr TransientMemory kMeasured{Heap::kEndless, Heap::kEndless};  // on NullOps

// Part of what this rank steps: 1-d views of the same elements.
struct FlatSlice {
  Tensor master, grad;         // f32
  std::vector<Tensor> states;  // as declared: of their type, and one element for each block
};

// That of one parameter: `count` elements from element `first`.
struct Slice : FlatSlice {
  Parameter* parameter;
  std::int64_t first, count;
};

// That of parameters in a row that decay alike, with the padding between them.
struct FlatRun : FlatSlice {
  std::string_view unit;
  bool decays;
};

// Writes elements [first, first + y.numel()) of a parameter to host memory `y` of any float type.
using ReadParameter = std::function<void(const Parameter&, Tensor y, std::int64_t first)>;

class ParameterStore {
 public:
  ParameterStore(Ops& ops, Communicator& comm, const ZeroOptions& options, StatesOf states = no_states);
  ParameterStore(Ops& ops, Communicator& comm, ZeroStage stage, StatesOf states = no_states)
      : ParameterStore(ops, comm, ZeroOptions{.stage = stage}, std::move(states)) {}
  ~ParameterStore();

  // Building, once: units in the order of their use; then memory; then values.
  // `transient`: as transient() of a store on NullOps was after the same steps.
  int add_unit(std::string name, const std::vector<Parameter*>& parameters);
  void reserve(TransientMemory transient = {});
  void load(const ReadParameter&);

  // A step. begin_step clears the gradients; `last` marks its last micro-step.
  void begin_step();
  void begin_micro_step(bool last) {
    last_micro_ = last;
    first_grads_ = true;
  }
  // The units that a pass will use, in this order, some more than once: candidates for prefetching.
  void expect(const std::vector<int>& units);
  bool expects() const { return !expected_.empty(); }
  // Binds the unit's values (and gradients for a backward pass) until release().
  void acquire(int unit, bool backward);
  void release(int unit);
  // The gradients bound by acquire(unit, true) are done; `complete` when nothing more will come in this
  // micro-step.
  void reduce(int unit, bool complete);
  // Global L2 norm of all gradients, in f64. Waits for the device.
  double grad_norm();
  void each_slice(const std::function<void(const Slice&)>& visit) {
    each_slice(options_.stage.states, visit);
  }
  // What a step visits: one launch for each run of parameters that decay alike, including the padding between
  // them. Not one for a whole group: its parameters would have to be sorted by decay, and the gradient's
  // norm, which is summed parameter by parameter in memory order, would have other bits. Padding is zero in
  // masters, gradients and states, and a step on zeros leaves zeros.
  void each_run(const std::function<void(const FlatRun&)>& visit);
  // Makes the stepped masters visible: casts them to values, gathers those where others need them.
  void publish();

  // What a checkpoint holds: masters, in f32, and states. Each rank saves its part, such that the parts of
  // all ranks are everything once, and restores what it holds.
  using Download = std::function<Tensor(const Tensor&)>;  // to the host, until the next call
  void each_part(const std::function<void(const Slice&, const Download&)>& visit);
  void restore_masters(const ReadParameter& read);
  // Writes the state's elements [first, first + y.numel()) to host memory `y`.
  using ReadState =
      std::function<void(const Parameter&, const StateSpec&, const Tensor& y, std::int64_t first)>;
  void restore_states(const ReadState& read);
  std::span<const StateSpec> states(const Parameter& p) const { return states_(p); }

  StoreMemory memory() const;
  TransientMemory transient() const;
  std::int64_t most_live() const { return most_live_; }  // elements whole at once, so far
  Communicator& communicator() const { return comm_; }
  int units() const { return static_cast<int>(units_.size()); }
  bool trains(int unit) const;
  // Whether ranks bring values together for every pass, so that they have to make their passes together.
  bool gathers() const { return comm_.size() > 1 && options_.stage.params == Layout::sharded; }

 private:
  struct Group {  // parameters of a unit, one after another, which are alike in the first four
    bool trained = false, persist = false;
    ZeroStage stage{};
    std::vector<StateSpec> specs;  // of each trained one

    std::vector<Parameter*> parameters;
    std::vector<std::int64_t> offsets;  // of each parameter, in elements
    std::int64_t count = 0;             // elements, padding included: a multiple of the group of ranks
    DType dtype = DType::f32;           // of the buffer; u8: bytes, whatever the parameters are

    // Elements of the buffer that a parameter takes.
    std::int64_t size(const Parameter& p) const {
      return p.shape.numel() * size_of(p.dtype) / size_of(dtype);
    }
    std::int64_t bytes() const { return count * size_of(dtype); }  // a multiple of Arena::kAlign
    Buffer value_memory, master_memory, grad_memory;
    std::vector<Buffer> state_memory;
    Tensor value, master, grad;  // (held elements); value as the params layout says, ...
    std::vector<Tensor> states;
    Tensor whole_grad;  // (count), in a backward pass where gradients are sharded
  };
  struct Unit {
    std::string name;
    std::vector<Group> groups;    // none is empty
    std::int64_t elements = 0;    // of parameters that are sharded
    int uses = 0;                 // by acquire()
    std::byte* values = nullptr;  // of the sharded groups, whole; null: not there and not on the way
    std::byte* grads = nullptr;   // of the trained groups, whole
    std::optional<Communicator::Ticket> arriving;
  };
  struct Range {
    std::int64_t first, count;
  };
  struct Reduction {  // that was started
    Unit* unit;
    Communicator::Ticket ticket;
    std::byte* grads;  // whole ones, to be added to what this rank holds; null: nothing is left to do
    bool across;       // and then to be added up over the groups of ranks
  };

  Range held(const Group&, Layout) const;  // what this rank has of a group in a layout
  Range stepped(const Group& g) const { return held(g, g.stage.states); }
  // The part that `layout` gives this rank of what it steps.
  void each_slice(Layout layout, const std::function<void(const Slice&)>&);
  // Elements [from, to) of a group, which this rank steps.
  FlatSlice flat_slice(const Group&, std::int64_t from, std::int64_t to) const;
  bool persists(const Parameter& p) const { return p.shape.numel() <= options_.persist; }
  Group& group_for(Unit&, const Parameter&);
  void lay_out(Group&) const;
  void reserve_trained(Group&);
  void restore(const Tensor& to, const std::function<void(const Tensor&)>& read);
  void read(const Group&, Tensor held, Range, const ReadParameter&);
  static void bind(Group&, Tensor Parameter::*view, Tensor all);
  void start_gather(Unit&);
  void gather_ahead();
  void take_grads(Unit&);
  void start_sum(Unit&);  // of gradients that every rank has whole
  void finish(const Reduction&);
  void settle();  // all reductions
  Unit& unit(int u) { return units_[static_cast<std::size_t>(u)]; }
  template <class Visit>
  void each_group(const Visit& visit) {
    for (Unit& u : units_)
      for (Group& g : u.groups) visit(g);
  }

  Ops& ops_;
  Communicator& comm_;
  ZeroOptions options_;
  StatesOf states_;
  // The ranks that share everything out, and those that hold the same; null: all, and none.
  std::unique_ptr<Communicator> group_, across_;
  Communicator& shards_;
  std::vector<Unit> units_;
  Buffer norm_memory_;
  std::optional<Heap> values_, grads_;  // what is whole only for a while
  std::deque<int> expected_;
  std::deque<Reduction> reductions_;
  std::int64_t live_ = 0, ahead_ = 0, most_live_ = 0;  // elements: whole, of them not used yet
  bool last_micro_ = true, first_grads_ = true;        // of a micro-step
};

// Holds the unit's values while it lives.
class Use {
 public:
  Use(ParameterStore& store, int unit, bool backward) : store_(store), unit_(unit) {
    store_.acquire(unit, backward);
  }
  ~Use() { store_.release(unit_); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  ParameterStore& store_;
  int unit_;
};

}  // namespace ft
