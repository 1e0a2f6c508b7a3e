// Streams of work. Work of a stream runs only when the host waits for it, or for work that depends on it: the
// latest time that CUDA allows. Ranks may be threads, each with its own GPU; only one of them computes at a
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
  // returns true if it may begin once the works before it are done; empty: always
  std::function<bool()> ready = {};
};

struct Progress {  // numbers of works of a stream
  std::uint64_t given = 0, done = 0;
};

using Lock = std::unique_lock<std::mutex>;
Lock lock();     // protects all state here; callers of the functions below hold it
void changed();  // wakes threads whose Work may have become ready

void push(cudaStream_t, Work);
// Runs the works of `stream` (null: of any stream), and of the streams that it waits for, until `done`.
void run_until(Lock&, cudaStream_t stream, const std::function<bool()>& done);
void drain(Lock&, cudaStream_t);
void wait_for_device(Lock&);  // all streams of this thread's GPU
void advance_all();           // as far as possible now
int current_device();
// Number of times that the host waited for a stream or an event. Held: lock().
std::uint64_t& waits();
std::size_t queued();   // works of all streams that are not done. Held: lock()
int& shared_allowed();  // how often a kernel was allowed more shared memory
// The GPU's clock. Only work with a declared duration advances it. Held: lock().
double& microseconds();

}  // namespace cuda_on_cpu

struct CudaOnCpuStream {
  int device = 0, priority = 0;
  std::deque<cuda_on_cpu::Work> works;
  std::shared_ptr<cuda_on_cpu::Progress> progress = std::make_shared<cuda_on_cpu::Progress>();
};
struct CudaOnCpuEvent {  // over when the stream's first `at` works are done
  std::shared_ptr<cuda_on_cpu::Progress> progress;
  std::uint64_t at = 0;
  bool timed = true;
  std::shared_ptr<double> when = {};  // in microseconds(), once it is over
  bool over() const { return !progress || progress->done >= at; }
};
