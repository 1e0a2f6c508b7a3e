// The file of training.gemm_tuning: which of cuBLASLt's algorithms was the fastest for which product, a line
// of JSON each. Lines are only ever appended, and the first one that can be used counts: so every process
// that shares the file, at once or later, computes with the same algorithms, and gets the same bits.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cuda/gemm/gemm_key.h"

namespace ft::cuda {

using AlgorithmBytes = std::array<unsigned char, 64>;  // a cublasLtMatmulAlgo_t

// Where a measurement holds: lines of another are left alone.
struct GemmMachine {
  std::string gpu, compute_capability;
  std::int64_t cublaslt, workspace;  // its version; bytes
  bool operator==(const GemmMachine&) const = default;
};

class GemmFile {
 public:
  using Usable = std::function<bool(const AlgorithmBytes&)>;

  // Makes the file where there is none. UserError: Exit::storage when it cannot be written, Exit::input with
  // the line that is damaged.
  GemmFile(const std::string& path, const GemmMachine&);
  GemmFile(const GemmFile&) = delete;
  GemmFile& operator=(const GemmFile&) = delete;
  ~GemmFile();

  // The file's first algorithm for such a product that `usable` takes. Sizes (m, n, k) that differ by less
  // than an eighth are alike: batches of all lengths share a few lines.
  std::optional<AlgorithmBytes> find(const GemmKey&, const Usable&);
  // Appends one that is usable, unless somebody else has added such a line meanwhile. Returns what the file
  // says now. microseconds: of all that were tried, for people.
  AlgorithmBytes keep(const GemmKey&, const AlgorithmBytes&, std::span<const double> microseconds,
                      const Usable&);

 private:
  class Locked;
  std::optional<AlgorithmBytes> first(const GemmKey&, const Usable&) const;
  void read_on();  // what is new in the file
  void read_line(std::string_view);
  void append(std::string line);

  std::string path_;
  GemmMachine machine_;
  int fd_ = -1;
  std::int64_t read_ = 0, lines_ = 0;  // bytes and lines so far
  bool ended_ = true;                  // the last line ends as a line does
  std::map<GemmKey, std::vector<AlgorithmBytes>> known_;
};

}  // namespace ft::cuda
