#include "tests/cuda_on_cpu/streams.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <vector>

#include "tests/cuda_on_cpu/memory.h"

namespace cuda_on_cpu {
namespace {

constexpr int kGpus = 4;

struct Machine {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<CudaOnCpuStream>> streams;
  double microseconds = 0;
  std::uint64_t waits = 0;
};
Machine& machine() {
  static Machine m;
  return m;
}

thread_local int device = 0;

CudaOnCpuStream& of(cudaStream_t s) {
  static CudaOnCpuStream usual;
  return s ? *s : usual;
}

bool may_begin(const CudaOnCpuStream& s) {
  return !s.works.empty() && (!s.works.front().ready || s.works.front().ready());
}

// Runs the works of a stream that may begin. Returns true if any ran.
bool advance(CudaOnCpuStream& s) {
  if (!may_begin(s)) return false;
  const Memory::Open open(memory());
  while (may_begin(s)) {
    const Work work = std::move(s.works.front());
    s.works.pop_front();
    try {
      if (work.run) work.run();
      memory().check_guards();
    } catch (...) {
      s.works.clear();
      s.progress->done = s.progress->given;
      throw;
    }
    ++s.progress->done;
  }
  machine().changed.notify_all();
  return true;
}

}  // namespace

Lock lock() { return Lock(machine().mutex); }
void changed() { machine().changed.notify_all(); }
int current_device() { return device; }
double& microseconds() { return machine().microseconds; }
std::uint64_t& waits() { return machine().waits; }
std::size_t queued() {
  std::size_t sum = 0;
  for (const auto& s : machine().streams) sum += s->works.size();
  return sum;
}

void push(cudaStream_t s, Work work) {
  if (of(s).device != device) throw Fault("work for another GPU's stream");
  of(s).works.push_back(std::move(work));
  ++of(s).progress->given;
  changed();
}

void run_until(Lock& held, cudaStream_t stream, const std::function<bool()>& done) {
  while (!done()) {
    bool moved = advance(of(stream));
    for (std::size_t i = 0; i < machine().streams.size() && !moved && !done(); ++i)
      moved = advance(*machine().streams[i]);
    if (!moved && !done()) machine().changed.wait_for(held, std::chrono::milliseconds(2));
  }
}

void drain(Lock& held, cudaStream_t s) {
  const auto progress = of(s).progress;
  run_until(held, s, [progress, all = progress->given] { return progress->done >= all; });
}

void wait_for_device(Lock& held) {
  std::vector<std::pair<cudaStream_t, std::shared_ptr<Progress>>> own;
  for (const auto& s : machine().streams)
    if (s->device == device) own.emplace_back(s.get(), s->progress);
  own.emplace_back(nullptr, of(nullptr).progress);
  for (const auto& [stream, progress] : own) {
    const auto all = progress->given;
    const auto over = [&p = *progress, all] { return p.done >= all; };
    if (!over()) run_until(held, stream, over);
  }
}

void advance_all() {
  bool moved = true;
  while (moved) {
    moved = advance(of(nullptr));
    for (const auto& s : machine().streams) moved |= advance(*s);
  }
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaGetDeviceCount(int* count) { return *count = kGpus, cudaSuccess; }
cudaError_t cudaSetDevice(int index) {
  if (index < 0 || index >= kGpus) return cudaErrorInvalidDevice;
  device = index;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* index) { return *index = device, cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = kGreatestPriority;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  return cudaStreamCreateWithPriority(s, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int priority) {
  if (priority > 0 || priority < kGreatestPriority) return cudaErrorInvalidValue;
  const Lock held = lock();
  *s = machine().streams.emplace_back(std::make_unique<CudaOnCpuStream>()).get();
  (*s)->device = device;
  (*s)->priority = priority;
  return cudaSuccess;
}
// Drops work that the host did not wait for.
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  const Lock held = lock();
  s->progress->done = s->progress->given;
  auto& all = machine().streams;
  all.erase(std::find_if(all.begin(), all.end(), [s](const auto& one) { return one.get() == s; }));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  Lock held = lock();
  ++waits();
  drain(held, s);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  const Lock held = lock();
  advance_all();
  return of(s).works.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  const Lock held = lock();
  push(s, {{}, [event = *e] { return event.over(); }});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
  *e = new CudaOnCpuEvent{.progress = {}, .timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  const Lock held = lock();
  if (of(s).device != device) throw Fault("an event of another GPU's stream");
  if (e->timed) {
    e->when = std::make_shared<double>();
    push(s, {[when = e->when] { *when = microseconds(); }});
  }
  e->progress = of(s).progress;
  e->at = e->progress->given;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  Lock held = lock();
  ++waits();
  cudaStream_t stream = nullptr;
  for (const auto& s : machine().streams)
    if (s->progress == e->progress) stream = s.get();
  run_until(held, stream, [event = *e] { return event.over(); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Lock held = lock();
  if (!begin->when || !end->when) return cudaErrorInvalidValue;
  if (!begin->over() || !end->over()) return cudaErrorNotReady;
  *milliseconds = static_cast<float>((*end->when - *begin->when) / 1000);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  const Lock held = lock();
  advance_all();
  return e->over() ? cudaSuccess : cudaErrorNotReady;
}
