// The decompositions of matrices that adapters start from (PiSSA, OLoRA, LoftQ, EVA): the largest singular
// values with their vectors, and the Q of a QR decomposition. Sums are in double, in an order that depends
// only on shapes. The signs of vectors are arbitrary.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/core/random.h"

namespace ft::lora {

struct MatrixView {  // rows, one after another
  const float* at;
  std::int64_t rows, cols;
};

// Vectors of equal length, one after another.
struct Vectors {
  std::int64_t length = 0, count = 0;
  std::vector<double> values;

  Vectors() = default;
  Vectors(std::int64_t size, std::int64_t number)
      : length(size), count(number), values(static_cast<std::size_t>(size * number)) {}
  double* operator[](std::int64_t i) { return values.data() + i * length; }
  const double* operator[](std::int64_t i) const { return values.data() + i * length; }
};

// The first singular values, descending, with their left (rows) and right (cols) vectors. The vectors of a
// value 0 may be zero.
struct Singular {
  Vectors left, right;
  std::vector<double> values;
};

// Returns the `rank` largest, at most min(rows, cols), accurate to about 1e-12 of the largest. Small matrices
// are decomposed by one-sided Jacobi rotations (Hestenes 1958), others by Golub and Kahan's bidiagonalization
// (1965) with complete reorthogonalization, until the values no longer change.
Singular largest_singular(MatrixView, std::int64_t rank);
// Like largest_singular(), accurate to about 1e-9 of the largest, by bidiagonalization only: for many long
// rows.
Singular leading_singular(MatrixView, std::int64_t rank);
// Like largest_singular(), from a random subspace that `iterations` passes improve (Halko et al. 2011), as in
// torch.svd_lowrank(q = rank, niter = iterations). Exact if the values have a gap after `rank`.
Singular likely_singular(MatrixView, std::int64_t rank, std::int64_t iterations, Random);

// Returns the first `count` columns of Q in Q R = the matrix; count <= min(rows, cols).
Vectors first_of_q(MatrixView, std::int64_t count);
// Returns, for each vector of weights (one for each row), the weighted sum of the matrix's rows.
Vectors rows_times(MatrixView, const Vectors&);
// Makes the vectors orthonormal, one after another.
void orthonormalize(Vectors&);

// Returns independent numbers of the standard normal distribution.
double normal_at(Random, std::uint64_t index);
// Returns independent numbers between -1 and 1, evenly distributed.
double uniform_at(Random, std::uint64_t index);

}  // namespace ft::lora
