// Tensors that GGUF holds in another cut than Hugging Face's files: a part of a tensor is a tensor of its own
// there, perhaps transposed.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace ft {

// One tensor of GGUF. The whole tensor is viewed as `matrices` matrices (R, C) of equal size, C being its
// last dimension. The part has ranges of their rows or columns; turned: each range is transposed. In memory
// all matrices' first ranges come first, then the second ranges.
struct GgufPart {
  struct Range {
    std::int64_t first, count, step = 1;
  };
  enum class Form : std::uint8_t {
    matrices,  // (matrices, rows, columns); one range
    rows,      // (rows of all matrices, columns)
    vectors    // (matrices, columns), of matrices of one row
  };
  std::string_view module;  // the end of the whole tensor's name: self_attn.kv_b_proj.weight
  std::string_view gguf;    // the part's name in a layer: attn_k_b.weight
  std::int64_t matrices = 1;
  std::vector<Range> ranges;
  bool columns = false;  // ranges are of columns
  bool turned = false;
  Form form = Form::matrices;

  // The size of a whole tensor's matrices. shape: of the whole. fits: the part's ranges are inside.
  struct Size {
    std::int64_t rows, columns;
    std::int64_t elements() const { return rows * columns; }
  };
  bool fits(const std::vector<std::int64_t>& shape) const;
  Size size_of(const std::vector<std::int64_t>& shape) const;
  // Returns the part's shape.
  std::vector<std::int64_t> shape_of(const std::vector<std::int64_t>& shape) const;

  // Elements of a range of one matrix.
  std::int64_t elements(const Range& r, Size s) const { return r.count * (columns ? s.rows : s.columns); }
  // Copy a range between a matrix and its place in the part.
  void take(const Range&, Size, const float* matrix, float* part) const;
  void put(const Range&, Size, float* matrix, const float* part) const;
  // Returns the first element of a range of matrix b in the part.
  std::int64_t place(std::size_t range, std::int64_t b, Size) const;

 private:
  // Calls f(element of the matrix, element of the range) for all elements of a range.
  void each(const Range&, Size, const auto& f) const;
};

}  // namespace ft
