#include "engine/cuda/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>

#include "engine/core/environment.h"
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/nccl/nccl_queue.h"
#include "engine/ranks/together.h"

namespace ft {
namespace cuda {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kForTheEnd{5000};  // time for the other ranks to finish with NCCL

// Turns NVLink's switches (NVLS) off: they sum in an order that differs from run to run. NCCL reads the
// environment when it starts. A user's own setting stays.
void leave_out_nvls() {
  static std::mutex mutex;  // ranks may be threads
  const std::lock_guard lock(mutex);
  if (variable("NCCL_ALGO").empty() && variable("NCCL_NVLS_ENABLE").empty())
    set_variable("NCCL_NVLS_ENABLE", "0");
}

NcclType type_of(DType t) {
  if (t == DType::f32) return NcclType::f32;
  if (t == DType::f64) return NcclType::f64;
  throw InternalError("a sum over ranks that is not f32 or wider: NCCL would round after each rank");
}

NcclType type_of(const Wire& w) { return w.dtype == DType::bf16 ? NcclType::bf16 : NcclType::f16; }

UserError failure(const Nccl& nccl, NcclComm comm, NcclResult result, const std::string& what) {
  const char* more = nccl.last_error(comm);
  return {Exit::hardware, str("NCCL failed in ", what, ": ", nccl.error_text(result),
                              more && *more ? ": " : "", printable(more ? more : "", 400),
                              "; distributed.backend=tcp does without it (NCCL_DEBUG=WARN says more)")};
}

// Waits until NCCL has begun the requested operation: its calls return at once.
void wait_for(NcclQueue& queue, NcclComm comm, NcclResult result, const std::string& what) {
  const auto until = Clock::now() + std::chrono::duration<double>(queue.seconds());
  for (int looks = 0; result == NcclResult::in_progress; ++looks) {
    queue.look();
    if (Clock::now() > until)
      queue.accuse_last(Exit::hang, str("has not answered for ", queue.seconds(), " s"));
    if (looks > 1000) std::this_thread::sleep_for(milliseconds(1));
    const NcclResult asked = queue.nccl().async_error(comm, &result);
    if (asked != NcclResult::success) result = asked;
  }
  if (result == NcclResult::success) return;
  queue.give_hosts_time();
  queue.look();
  if (result == NcclResult::remote_error) queue.accuse_last(Exit::peer_lost, "is lost to NCCL, in " + what);
  throw failure(queue.nccl(), comm, result, what);
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclQueue> queue, std::unique_ptr<Communicator> hosts, NcclComm comm,
                   RankSubset group = {})
      : queue_(std::move(queue)),
        part_(std::move(hosts)),
        hosts_(part_ ? *part_ : queue_->hosts()),
        comm_(comm),
        group_(std::move(group)),
        exceptions_(std::uncaught_exceptions()) {
    queue_->watch(comm_);
  }
  ~NcclCommunicator() override {
    if (queue_->abandoned()) return;
    if (std::uncaught_exceptions() > exceptions_ || queue_->hosts().watch().over() || !finalize()) abandon();
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return hosts_.rank(); }
  int size() const override { return hosts_.size(); }

  void all_gather(Tensor all, Tensor mine) override {
    require(all.numel() == mine.numel() * size() && all.dtype == mine.dtype, "all_gather: sizes");
    call(Collective::all_gather, mine.bytes() * (size() - 1), mine.numel(), [&] {
      return nccl().all_gather(mine.data, all.data, static_cast<std::size_t>(mine.bytes()), NcclType::u8,
                               comm_, queue_->stream());
    });
  }
  void reduce_scatter(Tensor mine, Tensor all) override {
    require(all.numel() == mine.numel() * size() && all.dtype == mine.dtype, "reduce_scatter: sizes");
    if (narrows(all.dtype)) return sum_narrow(Collective::reduce_scatter, mine, all, size());
    call(Collective::reduce_scatter, all.bytes() - mine.bytes(), mine.numel(), [&] {
      return nccl().reduce_scatter(all.data, mine.data, static_cast<std::size_t>(mine.numel()),
                                   type_of(all.dtype), NcclOp::sum, comm_, queue_->stream());
    });
  }
  void all_reduce(Tensor x) override {
    if (narrows(x.dtype)) return sum_narrow(Collective::all_reduce, x, x, 1);
    call(Collective::all_reduce, sent_to_add(x.numel()) * size_of(x.dtype), x.numel(), [&] {
      return nccl().all_reduce(x.data, x.data, static_cast<std::size_t>(x.numel()), type_of(x.dtype),
                               NcclOp::sum, comm_, queue_->stream());
    });
  }
  void all_to_all(Tensor to, Tensor from) override {
    require(to.numel() == from.numel() && to.numel() % size() == 0 && to.dtype == from.dtype,
            "all_to_all: sizes");
    const std::int64_t each = to.bytes() / size();
    call(Collective::all_to_all, each * (size() - 1), each, [&] {
      return together_as_one([&] {
        for (int r = 0; r < size(); ++r) {
          hand(from.data + each * r, each, r);
          fetch(to.data + each * r, each, r);
        }
      });
    });
  }
  void send_receive(Tensor out, int to, Tensor in, int from) override {
    call(Collective::send_receive, out ? out.bytes() : 0, 1, [&] {
      return together_as_one([&] {
        if (out) hand(out.data, out.bytes(), to);
        if (in) fetch(in.data, in.bytes(), from);
      });
    });
  }
  void all_gather_host(std::span<std::byte> all) override {
    between_hosts([&] { hosts_.all_gather_host(all); });
  }
  void broadcast(std::span<std::byte> host, int root) override {
    between_hosts([&] { hosts_.broadcast(host, root); });
  }
  void transfer(std::span<std::byte> host, int from, int to) override {
    between_hosts([&] { hosts_.transfer(host, from, to); });
  }
  void barrier() override {
    between_hosts([&] { hosts_.barrier(); });
  }

  // Begins after everything queued before has been computed; the computation continues next to it.
  Ticket start(Work work) override {
    queue_->look();
    queue_->after_computation();
    started_ = true;
    try {
      work(*this);
    } catch (...) {
      started_ = false;
      throw;
    }
    started_ = false;
    return queue_->mark();
  }
  void finish(Ticket ticket) override {
    queue_->look();
    queue_->before_computation(ticket);
  }
  void abandon() override {
    hosts_.abandon();
    queue_->abandon();
  }

  std::unique_ptr<Communicator> split(RankSubset group) override {
    const std::vector<int>& members = group.members;
    const auto own = std::find(members.begin(), members.end(), rank());
    require(own != members.end(), "a rank is not in its group");
    group.exact |= group_.exact;
    NcclConfig config;
    config.blocking = 0;
    NcclComm part = nullptr;
    const NcclResult r =
        nccl().split(comm_, members[0], static_cast<int>(own - members.begin()), &part, &config);
    wait_for(*queue_, comm_, r, "creating groups of ranks");  // the message is for the new communicators too
    auto hosts = hosts_.split(group);
    return std::make_unique<NcclCommunicator>(queue_, std::move(hosts), part, std::move(group));
  }

  void at_step(std::int64_t step) override { hosts_.at_step(step); }
  void enter(std::string_view what) override { hosts_.enter(what); }
  std::string via() const override { return "NCCL " + nccl_version().value_or(""); }
  std::int64_t memory() const override { return queue_->narrow().bytes(); }
  std::int64_t sent() const override { return queue_->sent() + hosts_.sent(); }

 private:
  const Nccl& nccl() const { return queue_->nccl(); }

  // Number of elements that this rank sends until all ranks have the sum of n.
  std::int64_t sent_to_add(std::int64_t n) const {
    const std::int64_t own = n / size();
    return n - own + own * (size() - 1);
  }
  bool narrows(DType sum) const { return size() > 1 && !group_.exact && queue_->wire().narrows(sum); }

  // mine = this rank's part of the sum over ranks of `all`, which has `parts` parts of f32. Each is rounded
  // into the queue's memory, summed there in the narrow type, and widened.
  void sum_narrow(Collective what, Tensor mine, Tensor all, int parts) {
    const Wire& wire = queue_->wire();
    const std::int64_t n = all.numel() / parts;
    const std::int64_t most = queue_->narrow().numel() / size() * (parts == 1 ? size() : 1);
    for (std::int64_t from = 0; from == 0 || from < n; from += most) {
      const std::int64_t count = std::min(most, n - from);
      const Tensor narrow = queue_->narrow().elements(0, parts * count);
      const Tensor own = parts == 1 ? narrow : narrow.elements(rank() * count, count);
      const std::int64_t sent = parts == 1 ? sent_to_add(count) : count * (size() - 1);
      const auto give = [&] {
        for (int part = 0; part < parts; ++part)
          to_wire(queue_->stream(), view_of(narrow.elements(part * count, count)),
                  view_of(flat(all).elements(part * n + from, count)), wire.scale);
        const auto each = static_cast<std::size_t>(count);
        if (parts == 1)
          return nccl().all_reduce(narrow.data, narrow.data, each, type_of(wire), NcclOp::sum, comm_,
                                   queue_->stream());
        return nccl().reduce_scatter(narrow.data, own.data, each, type_of(wire), NcclOp::sum, comm_,
                                     queue_->stream());
      };
      call(what, sent * size_of(wire.dtype), count, give, [&] {
        from_wire(queue_->stream(), view_of(flat(mine).elements(from, count)), view_of(own), wire.scale);
      });
    }
  }
  // Runs NCCL calls as a group that begins together.
  template <class Calls>
  NcclResult together_as_one(const Calls& calls) {
    const NcclResult begun = nccl().group_start();
    if (begun != NcclResult::success) return begun;
    failed_ = NcclResult::success;
    calls();
    const NcclResult over = nccl().group_end();
    return failed_ == NcclResult::success ? over : failed_;
  }
  void hand(const std::byte* at, std::int64_t bytes, int to) {
    note_failure(nccl().send(at, static_cast<std::size_t>(bytes), NcclType::u8, to, comm_, queue_->stream()));
  }
  void fetch(std::byte* at, std::int64_t bytes, int from) {
    note_failure(
        nccl().receive(at, static_cast<std::size_t>(bytes), NcclType::u8, from, comm_, queue_->stream()));
  }
  void note_failure(NcclResult r) {
    if (r != NcclResult::success && r != NcclResult::in_progress) failed_ = r;
  }
  static Tensor flat(const Tensor& x) { return x.view({x.numel()}); }

  // give: passes the call to NCCL; then: queues work that follows it.
  template <class Give>
  void call(
      Collective what, std::int64_t bytes, std::int64_t count, const Give& give,
      const std::function<void()>& then = [] {}) {
    queue_->look();
    queue_->note(what, group_.name);
    if (count == 0) return;
    if (!started_) queue_->after_computation();
    wait_for(*queue_, comm_, give(), name_of(what));
    then();
    queue_->count(bytes);
    if (!started_) queue_->before_computation(queue_->mark());
  }

  // Runs communication between hosts. If a rank is lost, it first frees the GPU from waiting for it.
  template <class Call>
  void between_hosts(const Call& talk) {
    try {
      talk();
    } catch (...) {
      queue_->abandon();
      throw;
    }
  }

  // Ends the use of NCCL; returns true if the other ranks came to the end too.
  bool finalize() {
    const auto until = Clock::now() + kForTheEnd;
    NcclResult r = nccl().finalize(comm_);
    while (r == NcclResult::in_progress && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(1));
      if (nccl().async_error(comm_, &r) != NcclResult::success) return false;
    }
    if (r != NcclResult::success) return false;
    queue_->forget(comm_);
    nccl().destroy(comm_);
    return true;
  }

  std::shared_ptr<NcclQueue> queue_;    // shared with communicators that were split off
  std::unique_ptr<Communicator> part_;  // of the hosts; null: all hosts
  Communicator& hosts_;
  NcclComm comm_;
  const RankSubset group_;  // empty: all ranks
  NcclResult failed_ = NcclResult::success;
  const int exceptions_;  // number of exceptions in flight at construction
  bool started_ = false;  // inside a function given to start()
};

}  // namespace
}  // namespace cuda

std::optional<std::string> nccl_version() {
  const cuda::Nccl* nccl = cuda::nccl();
  int v = 0;
  if (!nccl || nccl->version(&v) != cuda::NcclResult::success) return {};
  return str(v / 10000, ".", v / 100 % 100, ".", v % 100);
}

std::unique_ptr<Communicator> make_nccl_communicator(Ops& ops, std::unique_ptr<MeshCommunicator> hosts,
                                                     double seconds, const Wire& wire, std::int64_t bucket) {
  const cuda::Nccl* nccl = cuda::nccl();
  require(nccl != nullptr, "there is no NCCL");
  cuda::leave_out_nvls();
  const std::int64_t narrow = narrow_elements(wire.dtype, bucket, hosts->size());
  auto queue =
      std::make_shared<cuda::NcclQueue>(cuda::gpu_of(ops), *nccl, std::move(hosts), seconds, wire, narrow);
  MeshCommunicator& all = queue->hosts();
  all.enter("the start of NCCL");
  cuda::NcclId id{};
  together(all, "start NCCL", [&] {
    if (all.rank() > 0) return;
    const cuda::NcclResult r = nccl->unique_id(&id);
    if (r != cuda::NcclResult::success) throw cuda::failure(*nccl, nullptr, r, "its start");
  });
  all.broadcast(std::as_writable_bytes(std::span(id.bytes)), 0);
  cuda::NcclConfig config;
  config.blocking = 0;
  cuda::NcclComm comm = nullptr;
  queue->note(Collective::barrier);
  const cuda::NcclResult r = nccl->init(&comm, all.size(), id, all.rank(), &config);
  try {
    cuda::wait_for(*queue, comm, r, "its start");
  } catch (...) {
    if (comm) nccl->abort(comm);
    throw;
  }
  return std::make_unique<cuda::NcclCommunicator>(std::move(queue), nullptr, comm);
}

}  // namespace ft
