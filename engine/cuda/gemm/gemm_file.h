// The file of training.gemm_tuning: the fastest of cuBLASLt's algorithms for each product, in lines of JSON.
// Lines are only appended, and the first usable one counts. So all processes that share the file, at once or
// later, compute with the same algorithms and get the same bits.
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

// The machine for which a measurement holds; lines for other machines are ignored.
struct GemmMachine {
  std::string gpu, compute_capability;
  std::int64_t cublaslt, workspace;  // version of cuBLASLt; bytes
  bool operator==(const GemmMachine&) const = default;
};

class GemmFile {
 public:
  using Usable = std::function<bool(const AlgorithmBytes&)>;

  // Creates the file if there is none. Throws UserError (storage) if it cannot be written, and UserError
  // (input) with the number of the line if a line is damaged.
  GemmFile(const std::string& path, const GemmMachine&);
  GemmFile(const GemmFile&) = delete;
  GemmFile& operator=(const GemmFile&) = delete;
  ~GemmFile();

  // Returns the file's first algorithm for such a product that `usable` accepts. Sizes (m, n, k) that differ
  // by less than an eighth count as equal: batches of all lengths share a few lines.
  std::optional<AlgorithmBytes> find(const GemmKey&, const Usable&);
  // Appends a usable algorithm, unless another process has added a usable line meanwhile. Returns the
  // algorithm that the file now has. microseconds: times of all algorithms tried, for people.
  AlgorithmBytes keep(const GemmKey&, const AlgorithmBytes&, std::span<const double> microseconds,
                      const Usable&);

 private:
  class Locked;
  std::optional<AlgorithmBytes> first(const GemmKey&, const Usable&) const;
  void read_on();  // reads lines that were added
  void read_line(std::string_view);
  void append(std::string line);

  std::string path_;
  GemmMachine machine_;
  int fd_ = -1;
  std::int64_t read_ = 0, lines_ = 0;  // number of bytes and lines read
  bool ended_ = true;                  // the last line ends with a newline
  std::map<GemmKey, std::vector<AlgorithmBytes>> known_;
};

}  // namespace ft::cuda
