#include "tests/cuda_on_cpu/nccl.h"

#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/environment.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/streams.h"

using namespace cuda_on_cpu;
using ft::cuda::NcclComm;
using ft::cuda::NcclConfig;
using ft::cuda::NcclId;
using ft::cuda::NcclOp;
using ft::cuda::NcclResult;
using ft::cuda::NcclType;

namespace {

enum class Kind : std::uint8_t { all_gather, reduce_scatter, all_reduce };

struct Call {  // a collective of all ranks
  Kind kind{};
  NcclType type{};
  std::size_t count = 0;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<bool> came;
  std::size_t here = 0;
  bool done = false;
};
struct Message {  // from one rank to another
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t bytes = 0;
  bool leaves = false, arrives = false;  // the sender's, and the receiver's stream has reached it
  bool done = false;
};
struct World {
  static constexpr std::size_t kNotKnown = static_cast<std::size_t>(-1);
  std::size_t size = kNotKnown, joined = 0;
  std::map<std::uint64_t, std::shared_ptr<Call>> calls;
  std::map<std::pair<std::size_t, std::size_t>, std::map<std::uint64_t, std::shared_ptr<Message>>> messages;
  std::map<std::uint64_t, std::map<int, std::shared_ptr<World>>> splits;  // by number of the split, by color
  std::map<std::uint64_t, std::size_t> splitting;                         // ranks that have called split
};
struct Member {
  std::shared_ptr<World> world;
  std::size_t rank = 0;
  int device = 0, whole_rank = 0;
  std::shared_ptr<World> part = {};  // the group that it is creating
  std::uint64_t calls = 0, splits = 0;
  std::map<std::size_t, std::uint64_t> sent = {}, heard = {};  // counts of messages, by the other rank
  bool aborted = false, busy = false;
};

struct State {
  bool installed = false;
  int aborted = 0;
  std::uint32_t ids = 0;
  NcclFault fault;
  std::map<std::string, std::shared_ptr<World>> worlds;
  std::string nvls;
};
State& state() {
  static State s;
  return s;
}

std::size_t size_of(NcclType t) {
  switch (t) {
    case NcclType::u8:
      return 1;
    case NcclType::f16:
    case NcclType::bf16:
      return 2;
    case NcclType::f32:
      return 4;
    default:
      return 8;
  }
}

// Adds x to a sum of the same type. 16-bit sums are computed in f32 and rounded.
template <class T>
void add_to(T& sum, T x) {
  if constexpr (sizeof(T) == 2)
    from_float(sum, to_float(sum) + to_float(x));
  else
    sum += x;
}

// Adds up in an order that differs from the ranks' order: each part begins with the rank behind its owner.
template <class T>
void add_up(const Call& c, std::vector<std::vector<std::byte>>& sums, std::size_t ranks, std::size_t each) {
  for (std::size_t owner = 0; owner < sums.size(); ++owner)
    for (std::size_t i = 0; i < each; ++i) {
      T sum{};
      for (std::size_t k = 1; k <= ranks; ++k)
        add_to(sum, reinterpret_cast<const T*>(c.from[(owner + k) % ranks])[owner * each + i]);
      std::memcpy(sums[owner].data() + i * sizeof(T), &sum, sizeof sum);
    }
}

void perform(const Call& c) {
  const std::size_t n = c.from.size(), bytes = c.count * size_of(c.type);
  std::vector<std::vector<std::byte>> pieces;
  if (c.kind == Kind::all_gather) {
    for (const std::byte* p : c.from) pieces.emplace_back(p, p + bytes);
    for (std::byte* to : c.to)
      for (std::size_t r = 0; r < n; ++r) std::memcpy(to + r * bytes, pieces[r].data(), bytes);
    return;
  }
  const std::size_t parts = c.kind == Kind::reduce_scatter ? n : 1;
  pieces.assign(parts, std::vector<std::byte>(bytes));
  if (c.type == NcclType::f32)
    add_up<float>(c, pieces, n, c.count);
  else if (c.type == NcclType::bf16)
    add_up<ft::bf16>(c, pieces, n, c.count);
  else if (c.type == NcclType::f16)
    add_up<ft::f16>(c, pieces, n, c.count);
  else
    add_up<double>(c, pieces, n, c.count);
  for (std::size_t r = 0; r < n; ++r) std::memcpy(c.to[r], pieces[r % parts].data(), bytes);
}

}  // namespace

struct ft::cuda::ncclComm {
  std::shared_ptr<Member> member;
};

namespace {

bool fails(const Member& m, std::uint64_t call) {
  const NcclFault& f = state().fault;
  return f.rank == m.whole_rank && call >= f.after;
}

// Records that the rank's stream has reached the collective. Returns true if all ranks' streams have.
bool arrive(Member& m, Call& c, std::uint64_t number) {
  if (m.aborted) return true;
  if (state().fault.stuck && fails(m, number)) return false;
  if (!c.came[m.rank]) {
    c.came[m.rank] = true;
    ++c.here;
    changed();
  }
  return c.here == c.from.size();
}

NcclResult give(NcclComm comm, Kind kind, const void* from, void* to, std::size_t count, NcclType type,
                cudaStream_t stream) {
  const Lock held = lock();
  const auto m = comm->member;
  const std::size_t n = m->world->size, bytes = count * size_of(type);
  if (stream->device != m->device) throw Fault("a collective on another GPU's stream");
  if (stream->priority != kGreatestPriority) throw Fault("a collective that the computation goes before");
  if (!memory().holds(from, kind == Kind::reduce_scatter ? n * bytes : bytes) ||
      !memory().holds(to, kind == Kind::all_gather ? n * bytes : bytes))
    throw Fault("a collective beyond device memory");
  const std::uint64_t number = m->calls++;
  auto& call = m->world->calls[number];
  if (!call) {
    call = std::make_shared<Call>(Call{kind, type, count, {}, {}, {}});
    call->from.resize(n);
    call->to.resize(n);
    call->came.resize(n);
  }
  if (call->kind != kind || call->type != type || call->count != count)
    throw Fault("ranks in different collectives");
  call->from[m->rank] = static_cast<const std::byte*>(from);
  call->to[m->rank] = static_cast<std::byte*>(to);
  const auto c = call;
  push(stream, {[m, c] {
                  if (!m->aborted && !c->done) perform(*c);
                  c->done = true;
                },
                [m, c, number] { return arrive(*m, *c, number); }});
  m->busy = true;
  return NcclResult::in_progress;
}

// A message between group_start and group_end; all messages of a group have one communicator and stream.
struct Given {
  NcclComm comm;
  std::size_t other, bytes;
  const std::byte* from;  // null: it is received
  std::byte* to;
  cudaStream_t stream;
};
thread_local std::optional<std::vector<Given>> group;

struct Ends {  // one of the two ends of a message
  std::shared_ptr<Message> message;
  bool sends;
};

Ends end_of(Member& m, const Given& g) {
  const bool sends = g.from != nullptr;
  const std::uint64_t number = sends ? m.sent[g.other]++ : m.heard[g.other]++;
  const auto between = sends ? std::pair(m.rank, g.other) : std::pair(g.other, m.rank);
  auto& message = m.world->messages[between][number];
  const bool first = !message;
  if (first) message = std::make_shared<Message>();
  if (!first && message->bytes != g.bytes) throw Fault("a message of another size than is expected");
  message->bytes = g.bytes;
  if (sends)
    message->from = g.from;
  else
    message->to = g.to;
  if (!memory().holds(sends ? g.from : g.to, g.bytes)) throw Fault("a message beyond device memory");
  return {message, sends};
}

// Records that the stream has reached these messages. Returns true if their other ends have been reached too.
bool arrive(Member& m, const std::vector<Ends>& ends, std::uint64_t number) {
  if (m.aborted) return true;
  if (state().fault.stuck && fails(m, number)) return false;
  bool all = true;
  for (const Ends& e : ends) {
    bool& here = e.sends ? e.message->leaves : e.message->arrives;
    if (!std::exchange(here, true)) changed();
    all &= e.message->leaves && e.message->arrives;
  }
  return all;
}

NcclResult group_start() {
  if (group) throw Fault("a group in a group");
  group.emplace();
  return NcclResult::success;
}
NcclResult message(NcclComm comm, const void* from, void* to, std::size_t bytes, int other,
                   cudaStream_t stream) {
  if (!group) throw Fault("a message outside of a group");
  group->push_back({comm, static_cast<std::size_t>(other), bytes, static_cast<const std::byte*>(from),
                    static_cast<std::byte*>(to), stream});
  return NcclResult::success;
}
NcclResult group_end() {
  const Lock held = lock();
  const std::vector<Given> given = *std::exchange(group, {});
  if (given.empty()) return NcclResult::success;
  const auto m = given[0].comm->member;
  std::vector<Ends> ends;
  for (const Given& g : given) {
    if (g.comm->member != m || g.stream != given[0].stream || g.stream->device != m->device)
      throw Fault("messages of several communicators, or on another GPU's stream");
    ends.push_back(end_of(*m, g));
  }
  const std::uint64_t number = m->calls++;
  push(given[0].stream, {[m, ends] {
                           for (const Ends& e : ends) {
                             Message& x = *e.message;
                             if (!m->aborted && !x.done) std::memcpy(x.to, x.from, x.bytes);
                             x.done = true;
                           }
                         },
                         [m, ends, number] { return arrive(*m, ends, number); }});
  m->busy = true;
  return NcclResult::in_progress;
}

NcclComm join(const std::shared_ptr<World>& world, std::size_t rank, int whole_rank) {
  if (!(state().fault.no_start && state().fault.rank == whole_rank)) ++world->joined;
  Member m{.world = world, .rank = rank, .device = current_device(), .whole_rank = whole_rank};
  m.busy = true;
  return new ft::cuda::ncclComm{std::make_shared<Member>(m)};
}

NcclResult version(int* v) { return *v = 22809, NcclResult::success; }
NcclResult unique_id(NcclId* id) {
  const Lock held = lock();
  state().nvls = ft::variable("NCCL_NVLS_ENABLE");
  *id = {};
  const std::uint32_t number = ++state().ids;
  std::memcpy(id->bytes, &number, sizeof number);
  return NcclResult::success;
}
NcclResult init(NcclComm* comm, int ranks, NcclId id, int rank, NcclConfig* config) {
  if (config->blocking != 0 || config->magic != 0xcafebeef) return NcclResult::invalid_usage;
  const Lock held = lock();
  auto& world = state().worlds[std::string(id.bytes, sizeof id.bytes)];
  if (!world) world = std::make_shared<World>();
  world->size = static_cast<std::size_t>(ranks);
  *comm = join(world, static_cast<std::size_t>(rank), rank);
  return NcclResult::in_progress;
}
// Creates the groups of a split. Their sizes are known once all ranks have called it.
NcclResult split(NcclComm comm, int color, int key, NcclComm* part, NcclConfig*) {
  const Lock held = lock();
  Member& m = *comm->member;
  const std::uint64_t number = m.splits++;
  auto& worlds = m.world->splits[number];
  auto& world = worlds[color];
  if (!world) world = std::make_shared<World>();
  *part = join(world, static_cast<std::size_t>(key), m.whole_rank);
  m.part = world;
  if (++m.world->splitting[number] == m.world->size)
    for (auto& [c, w] : worlds) w->size = w->joined;
  return NcclResult::in_progress;
}
NcclResult finalize(NcclComm) { return NcclResult::success; }
NcclResult destroy(NcclComm comm) {
  delete comm;
  return NcclResult::success;
}
NcclResult abort(NcclComm comm) {
  const Lock held = lock();
  comm->member->aborted = true;
  ++state().aborted;
  changed();
  delete comm;
  return NcclResult::success;
}
NcclResult async_error(NcclComm comm, NcclResult* result) {
  const Lock held = lock();
  Member& m = *comm->member;
  const bool starting = m.world->joined < m.world->size || (m.part && m.part->joined < m.part->size);
  *result = starting || m.busy ? NcclResult::in_progress : NcclResult::success;
  m.busy = false;
  if (state().fault.breaks && fails(m, m.calls)) *result = NcclResult::remote_error;
  return NcclResult::success;
}
const char* error_text(NcclResult r) {
  return r == NcclResult::remote_error ? "remote process exited or there was a network error"
                                       : "invalid usage";
}
const char* last_error(NcclComm) { return "as a test wanted"; }
NcclResult all_gather(const void* mine, void* all, std::size_t each, NcclType t, NcclComm c, cudaStream_t s) {
  return give(c, Kind::all_gather, mine, all, each, t, s);
}
NcclResult reduce_scatter(const void* all, void* mine, std::size_t each, NcclType t, NcclOp, NcclComm c,
                          cudaStream_t s) {
  return give(c, Kind::reduce_scatter, all, mine, each, t, s);
}
NcclResult all_reduce(const void* from, void* to, std::size_t count, NcclType t, NcclOp, NcclComm c,
                      cudaStream_t s) {
  return give(c, Kind::all_reduce, from, to, count, t, s);
}
NcclResult send(const void* from, std::size_t count, NcclType t, int to, NcclComm c, cudaStream_t s) {
  return message(c, from, nullptr, count * size_of(t), to, s);
}
NcclResult receive(void* to, std::size_t count, NcclType t, int from, NcclComm c, cudaStream_t s) {
  return message(c, nullptr, to, count * size_of(t), from, s);
}

}  // namespace

namespace cuda_on_cpu {

void nccl_fault(const NcclFault& f) {
  const Lock held = lock();
  state().fault = f;
}
void nccl_installed(bool there) {
  const Lock held = lock();
  state().installed = there;
}
std::string nccl_nvls() {
  const Lock held = lock();
  return state().nvls;
}
int nccl_aborted() {
  const Lock held = lock();
  return state().aborted;
}

}  // namespace cuda_on_cpu

namespace ft::cuda {

const Nccl* nccl() {
  static const Nccl functions{version,    unique_id,   init,       split,       finalize,   destroy,
                              abort,      async_error, error_text, last_error,  all_gather, reduce_scatter,
                              all_reduce, send,        receive,    group_start, group_end};
  return state().installed ? &functions : nullptr;
}

}  // namespace ft::cuda
