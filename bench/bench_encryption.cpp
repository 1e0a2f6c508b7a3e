// Measures distributed.encryption: two ranks, threads of this process, gather a tensor over loopback. Prints
// Markdown: bytes per second that a rank sends, best of the repeats, and processor time of both ranks
// including the kernel, which other work on the machine hardly changes.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <vector>

#include "engine/cpu/cpu_ops.h"
#include "engine/crypto/tls.h"
#include "engine/ranks/mesh_communicator.h"

namespace ft {
namespace {

constexpr int kRepeats = 7;
constexpr std::int64_t kValues = std::int64_t{16} << 20;  // f32: 64 MiB, which each rank sends

double processor_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

struct Cost {
  double wall = 1e9, processor = 1e9;  // seconds of a collective
};

Cost rank(int number, const Address& at, Socket listener, Encryption encryption) {
  cpu::CpuOps ops(1);
  MeshCommunicator comm(ops,
                        meet({.rank = number,
                              .size = 2,
                              .master = at,
                              .listener = std::move(listener),
                              .token = "a secret of this program",
                              .config = "",
                              .seconds = 30,
                              .encryption = encryption}),
                        60);
  std::vector<float> values(2 * kValues, 1.0f);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return Tensor(reinterpret_cast<std::byte*>(values.data() + first), DType::f32, {count});
  };
  Cost best;
  for (int i = 0; i < kRepeats; ++i) {
    comm.barrier();
    const auto start = std::chrono::steady_clock::now();
    const double before = processor_seconds();
    comm.all_gather(part(0, 2 * kValues), part(number * kValues, kValues));
    comm.barrier();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    best.wall = std::min(best.wall, wall.count());
    best.processor = std::min(best.processor, processor_seconds() - before);
  }
  return best;
}

void measure() {
  std::printf("%s; all_gather of 64 MiB from each of two ranks\n\n", tls_library_version().c_str());
  std::printf(
      "| distributed.encryption | GB/s that a rank sends | processor seconds for a GB, both ranks |\n");
  std::printf("|---|---|---|\n");
  constexpr double kGigabytes = 4e-9 * static_cast<double>(kValues);
  for (const Encryption e : {Encryption::none, Encryption::auth, Encryption::tls}) {
    Socket listener = listen_at({"127.0.0.1", 0});
    const Address at = local_address(listener);
    auto root = std::async(std::launch::async, [&] { return rank(0, at, std::move(listener), e); });
    const Cost cost = rank(1, at, {}, e);
    root.get();
    std::printf("| %s | %.2f | %.2f |\n", name_of(e), kGigabytes / cost.wall, cost.processor / kGigabytes);
  }
}

}  // namespace
}  // namespace ft

int main() { ft::measure(); }
