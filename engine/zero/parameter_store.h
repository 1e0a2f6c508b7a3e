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
// then means within a group. Where experts are dealt out among ranks, "all ranks" means for an expert those
// that have it: they share it out, and add up its gradients.
//
// What a rank holds may live elsewhere than on its device (ZeRO-Offload, Ren et al., USENIX ATC 2021;
// ZeRO-Infinity, Rajbhandari et al., SC 2021): `Homes` says where. Values that live elsewhere are brought for
// their use, whole, as gathered ones are; a unit's gradients leave when they are complete; masters and states
// pass through the device a window at a time when they are stepped, saved or restored. What a GPU keeps in
// the host's memory, or in files, is stepped by the host.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/heap.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/grid.h"
#include "engine/ranks/work_queue.h"
#include "engine/zero/depot.h"
#include "engine/zero/parameter.h"
#include "engine/zero/state_spec.h"

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
  // Matrices of numbers that are shared out travel in 8 bits, and their gradients in 4 (coded.h). near: ranks
  // of a group in which a second copy of values is shared out, and gradients are added up first; divides
  // their number. 0: none.
  bool coded_values = false, coded_grads = false;
  int near = 0;
  // Elements that are on the device at once of what is stepped and lives elsewhere.
  std::int64_t window = std::int64_t{1} << 21;
  int windows = 4;      // of these at once: that is used, that leaves, the others on their way
  int units_ahead = 5;  // at most, where values live elsewhere
  Residence params_home, states_home;
  bool delayed = false;  // the gradients of a step are kept during the next one; they live elsewhere
  bool early = false;    // units are stepped beside the backward pass of others (Homes::host)
};

// Bytes of this rank.
struct StoreMemory {
  std::int64_t weights = 0;  // frozen values
  std::int64_t trained = 0;  // trained values
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  // states, and f32 masters where the values are narrower
  // Gathered and fetched values and gradients, windows; buffers of the communicator and of depots.
  std::int64_t communication = 0;
  std::int64_t host = 0;       // of a GPU's run: in the host's memory
  std::int64_t elsewhere = 0;  // in files
};

// Bytes for what is whole only for a while.
struct TransientMemory {
  std::int64_t values = 0, grads = 0, windows = 0;
};
inline constexpr TransientMemory kMeasured{Heap::kEndless, Heap::kEndless, Heap::kEndless};  // on NullOps

// Part of what this rank steps: 1-d views of the same elements.
struct FlatSlice {
  Tensor master, grad;         // f32
  std::vector<Tensor> states;  // as declared: of their type, and one element for each block
};

// That of one parameter: `count` elements from element `first`. A parameter may have several, one after
// another.
struct Slice : FlatSlice {
  Parameter* parameter;
  std::int64_t first, count;
};

// The same, with what a step needs that looks at the parameter as a whole. `count` may be 0.
struct WholeSlice : Slice {
  Tensor whole_grad;   // (elements of the parameter)
  double squares = 0;  // the sum of its master's, where it is asked for
  // The weight decay where this is the run's.
  double decay(double general) const {
    return parameter->rule.decay.value_or(parameter->decays ? general : 0);
  }
};

// That of parameters in a row that are updated alike, with the padding between them.
struct FlatRun : FlatSlice {
  std::string_view unit;
  bool decays;
  UpdateRule rule = {};
  bool whole = false;  // its parameters are visited by each_whole() too
  // The weight decay where this is the run's.
  double decay(double general) const { return rule.decay.value_or(decays ? general : 0); }
};

// How units are stepped while the others' backward pass goes on, each as soon as its gradients of the step
// are complete: with these, or with those of the step before. By a thread of the store's own where it has
// Homes::host.
struct EarlyStep {
  std::function<void(Ops&, const FlatRun&)> visit;
  bool previous = false;
};

// Writes elements [first, first + y.numel()) of a parameter to host memory `y` of any float type.
using ReadParameter = std::function<void(const Parameter&, Tensor y, std::int64_t first)>;

// A reader of parameters from one of the whole tensors that they may be parts of.
inline ReadParameter of_parts(ReadParameter whole) {
  return [whole = std::move(whole)](const Parameter& p, Tensor y, std::int64_t first) {
    each_piece(p, first, y.numel(), [&](std::int64_t here, std::int64_t at, std::int64_t n) {
      whole(p, y.elements(here - first, n), at);
    });
  };
}

class HostPieces;

class ParameterStore {
 public:
  // grid: where other ranks have other parts of the model, which have the same place in `comm` of their own,
  // or some of `comm` have what is Parameter::dealt. Null: everybody has everything.
  ParameterStore(Ops& ops, Communicator& comm, const ZeroOptions& options, StatesOf states = no_states,
                 Homes homes = {}, const Grid* grid = nullptr);
  ParameterStore(Ops& ops, Communicator& comm, ZeroStage stage, StatesOf states = no_states)
      : ParameterStore(ops, comm, ZeroOptions{.stage = stage}, std::move(states)) {}
  ~ParameterStore();

  // Building, once: units in the order of their use; then memory; then values.
  // `transient`: as transient() of a store on NullOps was after the same steps.
  // A unit that is apart is no step of a pass: what uses others of it asks for it if it needs it.
  int add_unit(std::string name, const std::vector<Parameter*>& parameters, bool apart = false);
  void reserve(TransientMemory transient = {});
  void load(const ReadParameter&);

  // A step. begin_step clears the gradients; `last` marks its last micro-step. Between a backward pass that
  // steps early and publish(), finish_early() steps what was not, and waits. own: the gradients of the ranks
  // are not added up, for a step that does so in its own way.
  void begin_step(std::optional<EarlyStep> early = {}, bool own = false);
  void finish_early();
  bool steps_early() const { return homes_.host != nullptr && homes_.states != nullptr; }
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
  // Units apart: whether they pay for this parameter, which comes from other ranks or from elsewhere, or has
  // a gradient that ranks add up; which of some are wanted by any rank that has them (mine: 1 or 0), for all
  // of these acquire them in the same order (backward: in a backward pass too); and to have one gathered
  // ahead.
  bool comes_apart(const Parameter& p) const;
  std::vector<std::uint8_t> wanted_by_any(const std::vector<std::uint8_t>& mine, bool dealt,
                                          bool backward) const;
  void gather(int unit);
  // How many like this one to gather ahead: from a file some, as it takes a while to begin.
  std::int64_t apart_ahead(int unit) const {
    constexpr std::int64_t kMost = 16;
    const std::int64_t each = std::max<std::int64_t>(1, units_[static_cast<std::size_t>(unit)].elements);
    return homes_.params ? std::clamp<std::int64_t>(options_.prefetch / each, 1, kMost) : 1;
  }
  // Of one that a backward pass does not want: whether it has to be acquired all the same, because of
  // gradients that are complete with this pass. And when a pass is through with those of one size, of which
  // it may have wanted any number: nothing is under way after it, so that memory is as it was planned.
  bool completes(int unit) const;
  void settle_apart();
  // The gradients bound by acquire(unit, true) are done; `complete` when nothing more will come in this
  // micro-step. Also of units apart that were not wanted, and so not acquired.
  void reduce(int unit, bool complete);
  // After a step's last backward pass: what the first and the last stage of a pipeline both have.
  void add_up_ends();
  // Global L2 norm, in f64, of the gradients of all that is updated in this step, counted from 1. Waits for
  // the device. Where gradients are not added up: the root mean square of the norms that each rank's
  // own gradient would have as the mean, which is at least the norm of the mean.
  double grad_norm(std::int64_t step = std::numeric_limits<std::int64_t>::max());
  void each_slice(const std::function<void(const Slice&)>& visit) {
    each_slice(options_.stage.states, {.changes = true, .grads = true}, visit);
  }
  // What a step visits: one launch for each run of parameters that are updated alike, including the padding
  // between them. Not one for a whole group: its parameters would have to be sorted by decay, and the
  // gradient's norm, which is summed parameter by parameter in memory order, would have other bits. Padding
  // is zero in masters and gradients, and a step on zeros leaves zeros.
  void each_run(const std::function<void(const FlatRun&)>& visit);
  // What a step visits after the runs, those that lie together at once: the parameters whose states want the
  // whole gradient, which is gathered from what the ranks have made of it by then, or is each rank's own.
  void each_whole(bool squares, const std::function<void(std::span<const WholeSlice>)>& visit);
  // What computes on the tensors of slices and runs: `usual`, which is the device's or goes around it, or the
  // host's.
  Ops& stepping(Ops& usual) { return on_host_ ? *homes_.host : usual; }
  // Makes the stepped masters visible: casts them to values, gathers those where others need them.
  void publish();

  // What a checkpoint holds: masters, in f32, states, and the gradients that a delayed step is to take. Each
  // rank saves its part, such that the parts of all ranks are everything once, and restores what it holds.
  // Values of a slice pass through the host's memory by the pieces that `visit` gets.
  void each_part(const std::function<void(const Slice&, HostPieces&)>& visit, bool gradients = false);
  void restore_masters(const ReadParameter& read);
  void restore_gradients(const ReadParameter& read);  // those of the step before
  bool keeps_gradients() const { return options_.delayed; }
  // Writes the state's elements [first, first + y.numel()) to host memory `y`.
  using ReadState =
      std::function<void(const Parameter&, const StateSpec&, const Tensor& y, std::int64_t first)>;
  void restore_states(const ReadState& read);
  // States that differ between ranks (StateSpec::apart), by pieces in the host's memory until the next;
  // `first`: the piece's first element in what checkpoints hold, as in ReadState.
  void each_apart(const std::function<void(const Parameter&, const StateSpec&, const Tensor& host,
                                           std::int64_t first)>& visit);
  std::span<const StateSpec> states(const Parameter& p) const { return states_(p); }

  StoreMemory memory() const;
  Moved moved() const;           // so far
  std::string moved_by() const;  // how, for people
  TransientMemory transient() const;
  std::int64_t most_live() const { return most_live_; }  // elements whole at once, so far
  Communicator& communicator() const { return comm_; }
  int units() const { return static_cast<int>(units_.size()); }
  bool trains(int unit) const;
  void each_parameter(const std::function<void(const Parameter&)>& visit) const {
    for (const Unit& u : units_)
      for (const Group& g : u.groups)
        for (const Parameter* p : g.parameters) visit(*p);
  }
  // Whether ranks need each other for every pass, to bring values together or because each has experts of its
  // own, so that they have to make their passes together.
  bool gathers() const {
    return comm_.size() > 1 && (options_.stage.params == Layout::sharded || experts_ != nullptr);
  }

 private:
  struct Away {              // a piece of a depot
    Depot* depot = nullptr;  // null: the thing is in the device's memory
    std::int64_t at = 0;     // bytes
    explicit operator bool() const { return depot != nullptr; }
  };
  struct Piece {  // of frozen values that live elsewhere: in the depot's file, or in the model's
    std::int64_t first, count;  // bytes of what the rank holds
    Away away;
    bool stored, numbers;  // in the model's; not codes
  };
  // Parameters of a unit, one after another, which are alike in the first five, and trained ones in type.
  struct Group {
    bool trained = false, persist = false, dealt = false, at_both_ends = false;
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
    bool comes = false;  // values are whole only while the unit is in use
    Buffer value_memory, master_memory, grad_memory;
    std::vector<Buffer> state_memory;
    // (held elements); value as the params layout says, ... Empty where it lives elsewhere.
    Tensor value, master, grad;
    std::vector<Tensor> states;  // whole ones: of one parameter after another
    bool coded = false;          // may travel in codes: every parameter begins at a block of them
    Buffer copy_memory;          // of this rank's part of a second copy of what is gathered,
    Tensor copy;                 // which
    bool copied = false;         // is there, and the values have not changed
    Tensor whole_grad;           // (count), in a backward pass where gradients are sharded or live elsewhere
    std::pair<Tensor, Tensor>
        whole_value;  // of one that comes: what is gathered, and from what this rank has
    Away value_away, master_away;
    Away passing;       // of narrower values on the device whose masters the host steps in place
    Away grad_away[2];  // of this step, and where steps are delayed of that before: at ParameterStore::made_
    std::vector<Away> states_away;
    std::vector<Piece> pieces;  // in place of value_away, where it is frozen; padding is in none
    bool elsewhere() const { return value_away || master_away || grad_away[0]; }
    std::int64_t first_norm = 0;  // of the squares' sums of its slices, where gradients live elsewhere
  };
  struct Unit {
    std::string name;
    std::vector<Group> groups;  // none is empty
    std::int64_t elements = 0;  // of parameters that are sharded
    bool apart = false;
    int uses = 0;                 // by acquire()
    std::byte* values = nullptr;  // of the sharded groups, whole; null: not there and not on the way
    std::byte* grads = nullptr;   // of the trained groups, whole
    std::byte* codes = nullptr;   // of values that arrive
    std::optional<Communicator::Ticket> arriving;
    std::optional<Depot::Ticket> fetched;
    bool has_grads[2] = {};  // in their depot, as Group::grad_away
    Depot::Ticket put = 0;   // of this step's
    bool stepped = false;    // early, in this step
  };
  struct Range {
    std::int64_t first, count;
  };
  struct Move {
    Depot* depot;
    Depot::Ticket ticket;
  };
  struct Access {
    bool changes = false;   // masters and states, which then go home, and are cast to values
    bool grads = false;     // are wanted
    bool previous = false;  // of the step before
  };
  // A part of what this rank steps, on the device.
  struct Window {
    Unit* unit;
    Group* group;
    Range range;  // of the group's elements
    FlatSlice here{};
    Tensor value{};                       // where values live elsewhere and are not their own masters
    std::vector<std::byte*> taken{};      // from windows_
    std::vector<Move> coming{}, going{};  // under way
  };
  struct CodedSums;
  struct Leaving {  // a unit's gradients, on their way to the depot
    Depot::Ticket ticket;
    std::byte* grads;
  };
  struct Reduction {  // that was started
    Unit* unit;
    Communicator::Ticket ticket;
    std::byte* grads;  // whole ones, to be added to what this rank holds; null: nothing is left to do
    bool across;       // and then to be added up over the groups of ranks
    bool last;         // of the step
    std::shared_ptr<CodedSums> coded = {};  // of the groups whose gradients travel in codes
    bool second = false;                    // of their hops
  };

  Communicator& ranks_of(bool dealt) const { return dealt && experts_ ? *experts_ : shards_; }
  // Starts work on a unit's groups, those whose ranks are the same together; the last ticket.
  Communicator::Ticket start(const Unit&, const std::function<void(Communicator&, const Group&)>& each) const;
  Range held(const Group&, Layout) const;  // what this rank has of a group in a layout
  Range stepped(const Group& g) const { return held(g, g.stage.states); }
  // The part that `layout` gives this rank of what it steps.
  void each_slice(Layout layout, Access, const std::function<void(const Slice&)>&);
  void each_window(Layout layout, Access, const std::function<void(const Window&)>&);
  void pass(std::vector<Window>, Access, const std::function<void(const Window&)>&);
  static void each_run_of(const Window&, const std::function<void(const FlatRun&)>&);
  std::int64_t window_of(const Group&) const;
  void add_windows(Unit&, Layout, std::vector<Window>& to);
  void step_early(Unit&);
  int slot(Access a) const { return a.previous ? 1 - made_ : made_; }
  void bring(Window&, Access);
  void leave(Window&);
  void leave_for_device(Window&);
  static void settle(std::vector<Move>&);
  void free(Window&);
  Tensor take_window(Window&, std::int64_t count, DType);
  std::byte* in_place(const Away&, std::int64_t at) const;
  Depot& mover(const Away&) const;
  // Elements [from, to) of a group, which are in the window; without states that are whole.
  static FlatSlice flat_slice(const Window&, std::int64_t from, std::int64_t to);
  bool persists(const Parameter& p) const { return p.shape.numel() <= options_.persist; }
  Group& group_for(Unit&, const Parameter&);
  void lay_out(Group&) const;
  void reserve_trained(Group&);
  void read(const Group&, Tensor held, Range, const ReadParameter&);
  static void read_to_host(const Group&, Tensor host, Range, const ReadParameter&);
  // `held` of a group into a depot, in elements of `dtype`.
  static void load_away(const Group&, const Away& to, Range held, DType dtype, const ReadParameter&);
  void reserve_frozen(Group&);
  void load_frozen(const Group&, const ReadParameter&);
  std::optional<Depot::Ticket> fetch_values(const Group&, Tensor own);
  static Away reserve_in(const std::shared_ptr<Depot>&, std::int64_t bytes);
  static void bind(Group&, Tensor Parameter::*view, Tensor all);
  void start_gather(Unit&);
  void land(Unit&);
  bool goes_coded(const Parameter&) const;
  bool codes_values(const Group& g) const { return g.coded && options_.coded_values; }
  bool codes_grads(const Group& g) const { return g.coded && g.trained && options_.coded_grads; }
  std::int64_t wire_bytes(const Group&) const;           // of what all ranks send of its values
  void forget_copies();                                  // of values that change
  std::shared_ptr<CodedSums> encode_grads(const Unit&);  // null: none of them travel in codes
  Communicator::Ticket start_hop(const Unit&, const std::shared_ptr<CodedSums>&, bool second);
  void finish_coded(const Reduction&);
  void advance();  // every reduction to what it waits for next
  void gather_ahead();
  void take_grads(Unit&);
  void start_sum(Unit&);                            // of gradients that every rank has whole
  void add_up_parts(const Unit&, bool last) const;  // of Parameter::summed
  void reduce_whole(Communicator&, const Group&, bool last) const;
  void finish(const Reduction&);
  void send_home(const Reduction&);
  void add_from_home(const Group&, Tensor own);
  void sum_squares(const Group&);            // of its slices, while the gradients are here
  double sum_of_squares(std::int64_t step);  // of all of them
  std::int64_t whole_elements(const Group&, const StateSpec&, std::size_t before) const;
  Tensor whole_state(const Group&, std::size_t state, std::size_t parameter) const;
  void visit_whole(
      const std::function<void(const Parameter&, const StateSpec&, const Tensor& here, std::int64_t first)>&);
  void add_whole_states(const Group&, std::size_t parameter, FlatSlice& to) const;
  std::vector<double> squares_of_masters();  // by Group::first_norm
  Tensor gather_gradient(const Group&, std::byte*& taken);
  void settle();        // all reductions
  void settle_homes();  // gradients that are leaving
  Unit& unit(int u) { return units_[static_cast<std::size_t>(u)]; }
  template <class Visit>
  void each_group(const Visit& visit) {
    for (Unit& u : units_)
      for (Group& g : u.groups) visit(g);
  }

  Ops& ops_;
  Communicator& comm_;
  // Ranks with other parts of the model, those of `comm` with the same experts; null: none, all of `comm`.
  Communicator *const tensor_, *const pipeline_, *const experts_, *const ends_;
  ZeroOptions options_;
  StatesOf states_;
  // The ranks that share everything out, and those that hold the same; null: all, and none.
  std::unique_ptr<Communicator> group_, across_;
  Communicator& shards_;
  // Within group_: groups of `options.near` ranks, and the ranks at the same place in each; null: all, and
  // none.
  std::unique_ptr<Communicator> near_, far_;
  std::vector<Unit> units_;
  Homes homes_;
  const bool on_host_;  // what lives in homes_.states is stepped there, and not on the device
  Buffer norm_memory_;
  std::int64_t norms_ = 0;                        // sums in norm_memory_, behind the total
  std::optional<Heap> values_, grads_, windows_;  // what is whole only for a while
  std::deque<Leaving> leaving_;
  std::deque<int> expected_;
  std::deque<Reduction> reductions_;
  std::int64_t live_ = 0, ahead_ = 0, most_live_ = 0;  // elements: whole, of them not used yet
  int units_ahead_ = 0;
  bool last_micro_ = true, first_grads_ = true;  // of a micro-step
  bool own_ = false;                             // gradients of this step are not added up
  int made_ = 0;                                 // which of the two gradients is made in this step
  std::optional<EarlyStep> early_;
  Depot::Ticket last_put_ = 0;       // of gradients
  Depot::Ticket rising_ = 0;         // the last of the stepped values that go to the device
  std::int64_t uploaded_ = 0;        // bytes of them that no depot moved
  std::optional<WorkQueue> beside_;  // what steps early; last: it uses the others
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
