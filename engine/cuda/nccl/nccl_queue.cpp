#include "engine/cuda/nccl/nccl_queue.h"

#include <algorithm>
#include <chrono>

#include "engine/core/error.h"
#include "engine/cuda/status.h"

namespace ft::cuda {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPoll{5}, kBetween{200};
constexpr milliseconds kForHosts{2000};
constexpr milliseconds kForTheEnd{2000};

cudaEvent_t make_event() {
  cudaEvent_t e = nullptr;
  check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "creating an event");
  return e;
}

}  // namespace

NcclQueue::NcclQueue(Gpu& gpu, const Nccl& nccl, std::unique_ptr<MeshCommunicator> hosts, double seconds,
                     const Wire& wire, std::int64_t narrow)
    : gpu_(gpu), nccl_(nccl), hosts_(std::move(hosts)), seconds_(seconds), wire_(wire), elements_(narrow) {
  gpu_.use();
  narrow_ = gpu_.allocate(elements_ * size_of(wire_.dtype));
  int least = 0, greatest = 0;  // collectives start before products that wait for a multiprocessor
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "creating a stream");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "creating a stream");
  computed_ = make_event();
  gpu_.while_waiting([this] { look(); });
  thread_ = std::thread([this] { run(); });
}

NcclQueue::~NcclQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
  gpu_.while_waiting({});
  for (const Mark& m : marks_) spare_.push_back(m.over);
  for (cudaEvent_t e : spare_) cudaEventDestroy(e);
  cudaEventDestroy(computed_);
  cudaStreamDestroy(stream_);
}

void NcclQueue::give_hosts_time() const {
  const auto until = Clock::now() + kForHosts;
  while (!hosts_->watch().over() && Clock::now() < until) std::this_thread::sleep_for(milliseconds(10));
}

void NcclQueue::look() {
  if (!hosts_->watch().over()) return;
  abandon();
  hosts_->watch().end();
}

void NcclQueue::accuse_last(Exit exit, const std::string& what) {
  hosts_->watch().suspect_last(exit, what);
  look();
  throw InternalError("an accusation without a verdict");
}

void NcclQueue::after_computation() {
  check(cudaEventRecord(computed_, gpu_.stream()), "a collective");
  check(cudaStreamWaitEvent(stream_, computed_, 0), "a collective");
}

cudaEvent_t NcclQueue::take_event() {
  if (spare_.empty()) return make_event();
  cudaEvent_t e = spare_.back();
  spare_.pop_back();
  return e;
}

NcclQueue::Ticket NcclQueue::mark() {
  const std::lock_guard lock(mutex_);
  cudaEvent_t over = take_event();
  check(cudaEventRecord(over, stream_), "a collective");
  if (marks_.empty()) moved_at_ = Clock::now();
  marks_.push_back({++last_, over, noted_});
  changed_.notify_all();
  return last_;
}

void NcclQueue::before_computation(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  const auto it =
      std::find_if(marks_.begin(), marks_.end(), [&](const Mark& m) { return m.ticket == ticket; });
  if (it != marks_.end()) check(cudaStreamWaitEvent(gpu_.stream(), it->over, 0), "a collective");
}

void NcclQueue::watch(NcclComm comm) {
  const std::lock_guard lock(mutex_);
  comms_.push_back(comm);
}

void NcclQueue::forget(NcclComm comm) {
  const std::lock_guard lock(mutex_);
  std::erase(comms_, comm);
}

void NcclQueue::abandon() {
  if (abandoned_) return;
  abandoned_ = true;
  {
    const std::lock_guard lock(mutex_);
    for (NcclComm c : comms_) nccl_.abort(c);
    comms_.clear();
  }
  const auto until = Clock::now() + kForTheEnd;
  while (cudaStreamQuery(stream_) == cudaErrorNotReady && Clock::now() < until)
    std::this_thread::sleep_for(milliseconds(1));
}

// False if the queue is stuck: the GPU processes it in order, so that its oldest mark must not stay for too
// long.
bool NcclQueue::moves() {
  const std::lock_guard lock(mutex_);
  while (!marks_.empty()) {
    const cudaError_t status = cudaEventQuery(marks_.front().over);
    // other problems are the GPU's; the next call that waits for it reports them
    if (status == cudaErrorNotReady) break;
    spare_.push_back(marks_.front().over);
    hosts_->watch().leave(marks_.front().collective);
    marks_.pop_front();
    moved_at_ = Clock::now();
  }
  return marks_.empty() || Clock::now() - moved_at_ < std::chrono::duration<double>(seconds_);
}

// Text of an error in NCCL's own threads; empty: there is none.
std::string NcclQueue::error() {
  const std::lock_guard lock(mutex_);
  for (NcclComm c : comms_) {
    NcclResult r = NcclResult::success;
    nccl_.async_error(c, &r);
    if (r != NcclResult::success && r != NcclResult::in_progress)
      return str(nccl_.error_text(r), ": ", printable(nccl_.last_error(c), 300));
  }
  return "";
}

// Watches the queue. Problems become the hosts' verdict, which look() throws in the threads that wait.
void NcclQueue::run() {
  gpu_.use();
  std::unique_lock lock(mutex_);
  while (!stop_ && !hosts_->watch().over()) {
    if (marks_.empty()) {
      changed_.wait_for(lock, kBetween);
      continue;
    }
    lock.unlock();
    if (!moves()) {
      hosts_->watch().suspect_last(Exit::hang, str("has not answered for ", seconds_, " s"));
    } else if (const std::string text = error(); !text.empty()) {
      give_hosts_time();
      hosts_->watch().suspect_last(Exit::peer_lost, "is lost to NCCL (" + text + ")");
    }
    std::this_thread::sleep_for(kPoll);
    lock.lock();
  }
}

}  // namespace ft::cuda
