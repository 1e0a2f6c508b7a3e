// Compares the speed of io_uring and of threads on files of parameters and optimizer states, in turns:
//   bench_files FOLDER [MiB] [rounds]
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/files/folder_speed.h"

namespace {

double processor_seconds() {
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(r.ru_utime) + seconds(r.ru_stime);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Way {
  ft::MoverKind kind;
  std::vector<double> read, write, seconds;
  std::string name;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "bench_files FOLDER [MiB] [rounds]\n"), 2;
  const std::int64_t bytes = (argc > 2 ? std::atoll(argv[2]) : 1024) << 20;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  Way ways[] = {{ft::MoverKind::uring, {}, {}, {}, ""}, {ft::MoverKind::threads, {}, {}, {}, ""}};
  for (int i = 0; i < rounds; ++i)
    for (Way& w : ways) {
      const double before = processor_seconds();
      const ft::FolderSpeed s = ft::measure_folder(argv[1], "FOLDER", bytes, w.kind);
      w.read.push_back(s.read);
      w.write.push_back(s.write);
      w.seconds.push_back(processor_seconds() - before);
      w.name = s.way;
    }
  std::printf("%-26s %10s %10s %14s\n", "medians", "read GB/s", "write GB/s", "CPU s per GB");
  for (const Way& w : ways)
    std::printf("%-26s %10.2f %10.2f %14.3f\n", w.name.c_str(), median(w.read) / 1e9, median(w.write) / 1e9,
                median(w.seconds) / (2e-9 * static_cast<double>(bytes)));
}
