// Placement of parameters, gradients and optimizer states: all of ZeRO (Rajbhandari et al., "ZeRO: memory
// optimizations toward training trillion parameter models", SC 2020). Each of the three is replicated or
// sharded. A stage is a name for three such layouts and is not used once they are chosen.
//
// A unit (the embedding, one block, the head) is gathered and reduced together. Its frozen and its trained
// parameters are in separate flat buffers, padded so that they divide into equal pieces for the ranks. Small
// parameters, which are replicated under every stage, have their own buffers. Frozen parameters may have
// several types (codes of 4-bit weights, scales, norms): their buffer is one of bytes. Trained parameters
// have one type, an f32 master (the value itself in an f32 run), an f32 gradient and the states that the
// optimizer declares.
//
// Ranks may form groups that each hold everything between them (MiCS, Zhang et al., VLDB 2022): "sharded"
// then means within a group. If experts are split among ranks, "all ranks" means, for an expert, the ranks
// that have it: they shard it and add up its gradients.
//
// A rank's data may be offloaded from its device (ZeRO-Offload, Ren et al., USENIX ATC 2021; ZeRO-Infinity,
// Rajbhandari et al., SC 2021) as `Homes` says. Offloaded values are fetched for their use, complete, like
// gathered ones. A unit's gradients are offloaded when they are complete. Masters and states pass through the
// device a window at a time when they are updated, saved or restored. The host updates the data that a GPU
// offloads.
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

// Elements are counted in the stored tensors: a byte of 4-bit codes is one element.
struct ZeroOptions {
  ZeroStage stage;
  int group = 0;             // ranks that shard everything among them; divides the number of ranks. 0: all
  std::int64_t persist = 0;  // parameters with at most this many elements are never sharded
  // If values are sharded: units are prefetched until this many elements are in flight, as long as at most
  // `max_live` elements are gathered at once, including units in use and persistent parameters. The limit
  // never stops gathering a unit that is needed now.
  std::int64_t prefetch = 0, max_live = std::numeric_limits<std::int64_t>::max();
  bool overlap = true;  // prefetch, and reduce a unit while the next one is computed
  // Sharded matrices are sent in 8 bits, and their gradients in 4 (coded.h). near: groups of this many ranks
  // shard a second copy of the values, and add up gradients within the group first; divides the number of
  // ranks. 0: none.
  bool coded_values = false, coded_grads = false;
  int near = 0;
  // Elements of offloaded data that are on the device at once during an update.
  std::int64_t window = std::int64_t{1} << 21;
  int windows = 4;      // windows at once: one in use, one being written back, the others being fetched
  int units_ahead = 5;  // most units prefetched, if values are offloaded
  Residence params_home, states_home;
  bool delayed = false;  // a step's gradients are applied during the next step; they are offloaded
  bool early = false;    // update units during the backward pass of others (Homes::host)
};

// Bytes of this rank's memory.
struct StoreMemory {
  std::int64_t weights = 0;  // frozen values
  std::int64_t trained = 0;  // trained values
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  // states, and f32 masters of narrower values
  // Gathered and fetched values and gradients, windows, buffers of the communicator and of depots.
  std::int64_t communication = 0;
  std::int64_t host = 0;       // a GPU's data in host memory
  std::int64_t elsewhere = 0;  // data in files
};

// Bytes of the memory that holds gathered data for a while.
struct TransientMemory {
  std::int64_t values = 0, grads = 0, windows = 0;
};
inline constexpr TransientMemory kMeasured{Heap::kEndless, Heap::kEndless, Heap::kEndless};  // on NullOps

// Views of a part of the data that this rank updates: all tensors are 1-d and have the same elements.
struct FlatSlice {
  Tensor master, grad;         // f32
  std::vector<Tensor> states;  // as declared: of their dtype, with one element per block
};

// A FlatSlice of one parameter: `count` elements from element `first`. A parameter may have several, in
// order.
struct Slice : FlatSlice {
  Parameter* parameter;
  std::int64_t first, count;
};

// A Slice for updates that need the complete parameter. `count` may be 0.
struct WholeSlice : Slice {
  Tensor whole_grad;   // (elements of the parameter)
  double squares = 0;  // of the complete master, if requested
  // Returns the weight decay, given the run's.
  double decay(double general) const {
    return parameter->rule.decay.value_or(parameter->decays ? general : 0);
  }
};

// A FlatSlice of consecutive parameters with equal update rules, including the padding between them.
struct FlatRun : FlatSlice {
  std::string_view unit;
  bool decays;
  UpdateRule rule = {};
  bool whole = false;  // each_whole() visits its parameters too
  // Returns the weight decay, given the run's.
  double decay(double general) const { return rule.decay.value_or(decays ? general : 0); }
};

// An update of units during the backward pass of other units, each as soon as its gradients of this step are
// complete. It applies these gradients, or (previous) the last step's. With Homes::host it runs on the
// store's thread.
struct EarlyStep {
  std::function<void(Ops&, const FlatRun&)> visit;
  bool previous = false;
};

// Writes elements [first, first + y.numel()) of a parameter to host memory `y`, which has any float type.
using ReadParameter = std::function<void(const Parameter&, Tensor y, std::int64_t first)>;

// Makes a reader of parameters, which may be parts of tensors, from a reader of complete tensors.
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
  // grid: the ranks with other parts of the model, each at this rank's place in its own `comm`, and the ranks
  // of `comm` with the same Parameter::dealt parameters. Null: every rank has the complete model.
  ParameterStore(Ops& ops, Communicator& comm, const ZeroOptions& options, StatesOf states = no_states,
                 Homes homes = {}, const Grid* grid = nullptr);
  ParameterStore(Ops& ops, Communicator& comm, ZeroStage stage, StatesOf states = no_states)
      : ParameterStore(ops, comm, ZeroOptions{.stage = stage}, std::move(states)) {}
  ~ParameterStore();

  // Setup, once: add_unit in the order of use, then reserve, then load.
  // transient: transient() of a store on NullOps after the same steps.
  // apart: the unit is on demand, not in the expected order; its user acquires it when a token needs it
  // (experts).
  int add_unit(std::string name, const std::vector<Parameter*>& parameters, bool apart = false);
  void reserve(TransientMemory transient = {});
  void load(const ReadParameter&);

  // A step. begin_step clears the gradients. `last` marks the step's last micro-step. finish_early(), after a
  // backward pass with early updates and before publish(), updates the remaining units and waits. own:
  // gradients are not added up over ranks, for a step that does this itself.
  void begin_step(std::optional<EarlyStep> early = {}, bool own = false);
  void finish_early();
  bool steps_early() const { return homes_.host != nullptr && homes_.states != nullptr; }
  void begin_micro_step(bool last) {
    last_micro_ = last;
    first_grads_ = true;
  }
  // Sets the order in which a pass will use units, some more than once: the candidates for prefetching.
  void expect(const std::vector<int>& units);
  bool expects() const { return !expected_.empty(); }
  // Binds the unit's values (and gradients, for a backward pass) until release().
  void acquire(int unit, bool backward);
  void release(int unit);
  // For on-demand units. comes_apart: whether such a unit is useful for parameter p, because p is gathered,
  // fetched, or has a gradient that ranks add up. wanted_by_any: for several units, whether any rank that has
  // the unit wants it (mine: 1 or 0), as all of these ranks must acquire it in the same order; backward: in a
  // backward pass too. gather: starts to gather a unit ahead.
  bool comes_apart(const Parameter& p) const;
  std::vector<std::uint8_t> wanted_by_any(const std::vector<std::uint8_t>& mine, bool dealt,
                                          bool backward) const;
  void gather(int unit);
  // Number of on-demand units to gather ahead: several from a file, as reading takes a while to begin.
  std::int64_t apart_ahead(int unit) const {
    constexpr std::int64_t kMost = 16;
    const std::int64_t each = std::max<std::int64_t>(1, units_[static_cast<std::size_t>(unit)].elements);
    return homes_.params ? std::clamp<std::int64_t>(options_.prefetch / each, 1, kMost) : 1;
  }
  // For on-demand units. completes: whether a unit that this backward pass does not use must still be
  // acquired, because its gradients become complete. settle_apart: call after a pass's units of one size,
  // however many it used. It waits for all pending work, so that memory is as planned.
  bool completes(int unit) const;
  void settle_apart();
  // Call when the gradients bound by acquire(unit, true) are computed. `complete`: no more will come in this
  // micro-step. Call it also for on-demand units that were not acquired.
  void reduce(int unit, bool complete);
  // Call after a step's last backward pass. Adds up the parameters that both ends of a pipeline have.
  void add_up_ends();
  // Global L2 norm, in f64, of the gradients of all parameters that step `step` (counted from 1) updates.
  // Waits for the device. If gradients are not added up: the root mean square of the norms that each rank's
  // own gradient would have as the mean, which is at least the norm of the mean.
  double grad_norm(std::int64_t step = std::numeric_limits<std::int64_t>::max());
  void each_slice(const std::function<void(const Slice&)>& visit) {
    each_slice(options_.stage.states, {.changes = true, .grads = true}, visit);
  }
  // Visits the data that a step updates: one launch for each run of parameters with equal update rules,
  // including the padding between them. Padding is zero in masters and gradients, and an update on zeros
  // leaves zeros. A group is not one run: sorting its parameters by decay would change the bits of the
  // gradient's norm, which is summed in memory order.
  void each_run(const std::function<void(const FlatRun&)>& visit);
  // Visits, after the runs, the parameters whose states want the complete gradient, a group at a time. The
  // gradient is gathered from the ranks' results so far, or is each rank's own. squares: set
  // WholeSlice::squares.
  void each_whole(bool squares, const std::function<void(std::span<const WholeSlice>)>& visit);
  // Returns the Ops for the tensors of slices and runs: `usual` (the device's, or a wrapper) or the host's.
  Ops& stepping(Ops& usual) { return on_host_ ? *homes_.host : usual; }
  // Makes updated masters visible: casts them to values, and gathers values that other ranks need.
  void publish();

  // Tensors of checkpoints: masters, in f32, states, and the gradients that a delayed step will apply. Each
  // rank saves its part, so that the parts of all ranks are everything once, and restores the tensors that it
  // holds. A slice's tensors pass through host memory in the pieces that `visit` gets.
  void each_part(const std::function<void(const Slice&, HostPieces&)>& visit, bool gradients = false);
  void restore_masters(const ReadParameter& read);
  void restore_gradients(const ReadParameter& read);  // gradients of the step before
  bool keeps_gradients() const { return options_.delayed; }
  // Writes the state's elements [first, first + y.numel()) to host memory `y`.
  using ReadState =
      std::function<void(const Parameter&, const StateSpec&, const Tensor& y, std::int64_t first)>;
  void restore_states(const ReadState& read);
  // Visits the states that differ between ranks (StateSpec::apart), in pieces of host memory that are valid
  // until the next call. `first`: index, in the saved tensor, of the piece's first element, as in ReadState.
  void each_apart(const std::function<void(const Parameter&, const StateSpec&, const Tensor& host,
                                           std::int64_t first)>& visit);
  std::span<const StateSpec> states(const Parameter& p) const { return states_(p); }

  StoreMemory memory() const;
  Moved moved() const;           // so far
  std::string moved_by() const;  // the means of copying, for people
  TransientMemory transient() const;
  std::int64_t most_live() const { return most_live_; }  // most elements gathered at once so far
  Communicator& communicator() const { return comm_; }
  int units() const { return static_cast<int>(units_.size()); }
  bool trains(int unit) const;
  void each_parameter(const std::function<void(const Parameter&)>& visit) const {
    for (const Unit& u : units_)
      for (const Group& g : u.groups)
        for (const Parameter* p : g.parameters) visit(*p);
  }
  // Returns true if every pass needs all ranks, to gather values or because their experts differ. Ranks must
  // then make their passes together.
  bool gathers() const {
    return comm_.size() > 1 && (options_.stage.params == Layout::sharded || experts_ != nullptr);
  }

 private:
  struct Away {              // a piece of a depot
    Depot* depot = nullptr;  // null: the data is on the device
    std::int64_t at = 0;     // offset in bytes
    explicit operator bool() const { return depot != nullptr; }
  };
  struct Piece {                // a piece of frozen, offloaded values: in the depot's file, or in the model's
    std::int64_t first, count;  // bytes of this rank's data
    Away away;
    bool stored, numbers;  // in the model's file; numbers, not codes
  };
  // Consecutive parameters of a unit that have the same first five fields and, if trained, one dtype.
  struct Group {
    bool trained = false, persist = false, dealt = false, at_both_ends = false;
    ZeroStage stage{};
    std::vector<StateSpec> specs;  // of each trained parameter

    std::vector<Parameter*> parameters;
    std::vector<std::int64_t> offsets;  // of each parameter, in elements
    std::int64_t count = 0;             // elements with padding: a multiple of the number of sharding ranks
    DType dtype = DType::f32;           // of the buffer; u8: bytes, whatever the parameters' types

    // Returns the buffer elements that a parameter takes.
    std::int64_t size(const Parameter& p) const {
      return p.shape.numel() * size_of(p.dtype) / size_of(dtype);
    }
    std::int64_t bytes() const { return count * size_of(dtype); }  // a multiple of Arena::kAlign
    bool comes = false;  // values are complete only while the unit is in use
    Buffer value_memory, master_memory, grad_memory;
    std::vector<Buffer> state_memory;
    // (held elements); `value` in the params layout, `grad` in the grads layout, ... Empty if offloaded.
    Tensor value, master, grad;
    std::vector<Tensor> states;  // whole ones: one parameter's after another
    bool coded = false;          // may be sent in codes: every parameter begins at a block of codes
    Buffer copy_memory;          // memory of `copy`
    Tensor copy;                 // this rank's part of a second copy of the gathered values
    bool copied = false;         // `copy` is set, and the values have not changed
    Tensor whole_grad;           // (count), in a backward pass, if gradients are sharded or offloaded
    std::pair<Tensor, Tensor> whole_value;  // if `comes`: the gathered values, and this rank's input
    Away value_away, master_away;
    Away passing;       // narrower values on the device, whose masters the host updates in place
    Away grad_away[2];  // [made_]: this step's; the other: a delayed step's
    std::vector<Away> states_away;
    std::vector<Piece> pieces;  // replaces value_away if frozen; padding is in no piece
    bool elsewhere() const { return value_away || master_away || grad_away[0]; }
    std::int64_t first_norm = 0;  // index in norm_memory_ of its parameters' sums of squares, from 1
  };
  struct Unit {
    std::string name;
    std::vector<Group> groups;  // none is empty
    std::int64_t elements = 0;  // of sharded or offloaded parameters
    bool apart = false;
    int uses = 0;                 // number of acquire() calls without release()
    std::byte* values = nullptr;  // of the groups that come, gathered; null: not there and not on the way
    std::byte* grads = nullptr;   // of the trained groups, complete
    std::byte* codes = nullptr;   // of values being received
    std::optional<Communicator::Ticket> arriving;
    std::optional<Depot::Ticket> fetched;
    bool has_grads[2] = {};  // offloaded, indexed like Group::grad_away
    Depot::Ticket put = 0;   // of this step's gradients
    bool stepped = false;    // updated early in this step
  };
  struct Range {
    std::int64_t first, count;
  };
  struct Move {
    Depot* depot;
    Depot::Ticket ticket;
  };
  struct Access {
    bool changes = false;   // changes masters and states: write them back and cast them to values
    bool grads = false;     // gradients are needed
    bool previous = false;  // the gradients of the step before
  };
  // A part of the data that this rank updates, on the device.
  struct Window {
    Unit* unit;
    Group* group;
    Range range;  // in elements of the group
    FlatSlice here{};
    Tensor value{};                       // if values are offloaded and are not their own masters
    std::vector<std::byte*> taken{};      // memory from windows_
    std::vector<Move> coming{}, going{};  // pending copies
  };
  struct CodedSums;
  struct Leaving {  // a unit's gradients being offloaded
    Depot::Ticket ticket;
    std::byte* grads;
  };
  struct Reduction {  // a reduction that was started
    Unit* unit;
    Communicator::Ticket ticket;
    std::byte* grads;  // complete ones, to be added to this rank's; null: nothing is left to do
    bool across;       // then add up over the groups of ranks
    bool last;         // of the step
    std::shared_ptr<CodedSums> coded = {};  // of the groups whose gradients are sent in codes
    bool second = false;                    // second hop
  };

  Communicator& ranks_of(bool dealt) const { return dealt && experts_ ? *experts_ : shards_; }
  // Starts work on a unit's groups, together for groups with the same ranks. Returns the last ticket.
  Communicator::Ticket start(const Unit&, const std::function<void(Communicator&, const Group&)>& each) const;
  Range held(const Group&, Layout) const;  // this rank's part of a group in a layout
  Range stepped(const Group& g) const { return held(g, g.stage.states); }
  // Visits the part of the updated data that `layout` gives this rank.
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
  // Elements [from, to) of a group, which must be in the window; leaves whole states empty.
  static FlatSlice flat_slice(const Window&, std::int64_t from, std::int64_t to);
  bool persists(const Parameter& p) const { return p.shape.numel() <= options_.persist; }
  Group& group_for(Unit&, const Parameter&);
  void lay_out(Group&) const;
  void reserve_trained(Group&);
  void read(const Group&, Tensor held, Range, const ReadParameter&);
  static void read_to_host(const Group&, Tensor host, Range, const ReadParameter&);
  // Copies a group's `held` range into a depot, in elements of `dtype`.
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
  std::int64_t wire_bytes(const Group&) const;           // bytes of its values that all ranks send together
  void forget_copies();                                  // of trained values
  std::shared_ptr<CodedSums> encode_grads(const Unit&);  // null: no group's gradients are sent in codes
  Communicator::Ticket start_hop(const Unit&, const std::shared_ptr<CodedSums>&, bool second);
  void finish_coded(const Reduction&);
  void advance();  // moves every reduction to its next wait
  void gather_ahead();
  void take_grads(Unit&);
  void start_sum(Unit&);                            // of gradients that every rank has complete
  void add_up_parts(const Unit&, bool last) const;  // adds up Parameter::summed gradients
  void reduce_whole(Communicator&, const Group&, bool last) const;
  void finish(const Reduction&);
  void send_home(const Reduction&);
  void add_from_home(const Group&, Tensor own);
  void sum_squares(const Group&);            // of the group's gradients, before they are offloaded
  double sum_of_squares(std::int64_t step);  // of all slices
  std::int64_t whole_elements(const Group&, const StateSpec&, std::size_t before) const;
  Tensor whole_state(const Group&, std::size_t state, std::size_t parameter) const;
  void visit_whole(
      const std::function<void(const Parameter&, const StateSpec&, const Tensor& here, std::int64_t first)>&);
  void add_whole_states(const Group&, std::size_t parameter, FlatSlice& to) const;
  std::vector<double> squares_of_masters();  // indexed like Group::first_norm
  Tensor gather_gradient(const Group&, std::byte*& taken);
  void settle();        // finishes all reductions
  void settle_homes();  // waits for gradients being offloaded
  Unit& unit(int u) { return units_[static_cast<std::size_t>(u)]; }
  template <class Visit>
  void each_group(const Visit& visit) {
    for (Unit& u : units_)
      for (Group& g : u.groups) visit(g);
  }

  Ops& ops_;
  Communicator& comm_;
  // Ranks with other parts of the model, or null; experts_: ranks of `comm` with the same experts, null: all.
  Communicator *const tensor_, *const pipeline_, *const experts_, *const ends_;
  ZeroOptions options_;
  StatesOf states_;
  // The ranks that shard everything among them, and the ranks that hold the same pieces. Null: all, and none.
  std::unique_ptr<Communicator> group_, across_;
  Communicator& shards_;
  // Groups of `options.near` ranks within group_, and the ranks at the same place in each. Null: all, and
  // none.
  std::unique_ptr<Communicator> near_, far_;
  std::vector<Unit> units_;
  Homes homes_;
  const bool on_host_;  // the host, not the device, updates the data in homes_.states
  Buffer norm_memory_;
  std::int64_t norms_ = 0;                        // sums in norm_memory_, after the total
  std::optional<Heap> values_, grads_, windows_;  // memory of gathered data
  std::deque<Leaving> leaving_;
  std::deque<int> expected_;
  std::deque<Reduction> reductions_;
  std::int64_t live_ = 0, ahead_ = 0, most_live_ = 0;  // elements: gathered, gathered ahead, most gathered
  int units_ahead_ = 0;
  bool last_micro_ = true, first_grads_ = true;  // state of a micro-step
  bool own_ = false;                             // this step's gradients are not added up
  int made_ = 0;                                 // index of this step's gradients among the two
  std::optional<EarlyStep> early_;
  Depot::Ticket last_put_ = 0;       // ticket of the last gradients put
  Depot::Ticket rising_ = 0;         // the last upload of updated values to the device
  std::int64_t uploaded_ = 0;        // uploaded bytes that no depot copied
  std::optional<WorkQueue> beside_;  // runs early updates; last member: it uses the others
};

// Keeps the unit acquired while it exists.
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
