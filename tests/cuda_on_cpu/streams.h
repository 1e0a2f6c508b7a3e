// Queues of work. Nothing of a queue happens before somebody waits for it, or for what waits for it: as late
// as CUDA may do it. Several threads may be ranks, each with a GPU of its own; one of them computes at a
// time.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "tests/cuda_on_cpu/cuda_runtime.h"

namespace cuda_on_cpu {

struct Work {
  std::function<void()> run;
  std::function<bool()> ready = {};  // it may begin, all before it in its queue being done; empty: it may
};

struct Progress {  // works of a stream: given so far, done
  std::uint64_t given = 0, done = 0;
};

using Lock = std::unique_lock<std::mutex>;
Lock lock();     // of everything here, held by whoever calls one of these
void changed();  // what a Work may wait for has perhaps happened

void push(cudaStream_t, Work);
// Does the works of `stream` (null: of any), and of others where that one waits, until `done`.
void run_until(Lock&, cudaStream_t stream, const std::function<bool()>& done);
void drain(Lock&, cudaStream_t);
void wait_for_device(Lock&);  // all streams of this thread's GPU
void advance_all();           // as far as it goes now
int current_device();
// Calls so far in which the host waited for a stream or an event. Held: lock().
std::uint64_t& waits();
std::size_t queued();   // works of all streams that are not done. Held: lock()
int& shared_allowed();  // how often a kernel was allowed more shared memory
// The GPU's clock, which only work that says how long it takes moves on. Held: lock().
double& microseconds();

}  // namespace cuda_on_cpu

struct CudaOnCpuStream {
  int device = 0, priority = 0;
  std::deque<cuda_on_cpu::Work> works;
  std::shared_ptr<cuda_on_cpu::Progress> progress = std::make_shared<cuda_on_cpu::Progress>();
};
struct CudaOnCpuEvent {  // when the stream's first `at` works are done
  std::shared_ptr<cuda_on_cpu::Progress> progress;
  std::uint64_t at = 0;
  bool timed = true;
  std::shared_ptr<double> when = {};  // by microseconds(), once it is over
  bool over() const { return !progress || progress->done >= at; }
};
