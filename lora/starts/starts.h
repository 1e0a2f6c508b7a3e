// Initial values of adapters, which no file has, as PEFT's init_lora_weights chooses them. W is a Linear's
// weight (out, in), s the adapter's scale.
//   true        A uniform in +-1 / sqrt(in), B zero
//   gaussian    A normal with deviation 1 / r, B zero
//   false       both uniform
//   orthogonal  A = (X Q_odd)^T / 10, B = Y Q_even / 10 with X, Y normal and the odd and even rows of a
//               random orthogonal Q: neither is zero, B A is
//   pissa       A = sqrt(S / s) V^T, B = U sqrt(S / s) of W's largest singular values S; W loses s B A
//   olora       A the first rows of R, B the first columns of Q in Q R = W; W loses s B A
//   eva         A the principal components of the Linear's inputs on the data (eva.h), B zero
//   lora_ga     A and B from singular vectors of W's gradient on the data (lora_ga.h); W loses s B A
//   embeddings  A zero, B normal; with false both normal
//   loftq       A = sqrt(S) V^T, B = U sqrt(S) of the part of W that 4 bits lose; accurate if s is 1
// SHiRA's places are drawn from lora.random_seed. DoRA's initial magnitudes are the norms of the rows of
// W + s B A at the start.
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "engine/files/safetensors/weights.h"
#include "lora/attach.h"
#include "lora/fp8.h"
#include "lora/quantize.h"
#include "lora/shira.h"

namespace ft::lora {

// The sources of the weights that have adapters.
struct WeightsBelow {
  const WeightSource& whole;      // the original weights, in the model's folder
  const WeightSource& base;       // without the part that the adapters took
  const FourBitWeights* weights;  // null: no weight is in 4 bits
  const Fp8Weights* fp8;          // null: no weight is in FP8
  DType dtype;                    // dtype of the model's other weights
};

// Initial values of an adapter that depend on W or on data.
struct Factors {
  std::vector<float> a, b;
};

// Returns W (out, in) of the i-th adapter's Linear, in whichever order it is stored.
std::vector<float> read_whole(const WeightSource& from, const Attached& attached, std::size_t i);

class Starts {
 public:
  // given: initial values of each adapter that the data decided; for init eva, only A's. Empty: a file has
  // them, or they are not known yet and zero.
  Starts(const Attached&, LoraStart, Random, std::vector<Factors> given = {});

  bool changes_base() const { return start_.changes_base(); }
  // Returns the initial values of an adapter. They are computed once; callable from several threads. For
  // pissa and olora only the original weights of `below` are read.
  const Factors& factors(std::size_t adapter, const WeightsBelow& below) const;
  const Attached& attached() const { return attached_; }
  // Reads elements of an adapter's parameter from `first` on.
  void read(const WeightsBelow&, const Parameter&, const Tensor& y, std::int64_t first) const;

 private:
  struct Rows {
    std::vector<float> squares, norms;
  };
  Factors make(std::size_t adapter, const WeightsBelow&) const;
  const Rows& rows(std::size_t adapter, const WeightsBelow&) const;
  // Returns the places of SHiRA's values. Weights of one shape have the same.
  const std::vector<std::int32_t>& places(const ShiraAdapter&) const;
  static void read_tokens(const WeightSource& base, const TokenTable&, const Tensor& y, std::int64_t first);
  // Returns A and B at the first step.
  Factors first_values(std::size_t adapter, const WeightsBelow&) const;

  Attached attached_;
  LoraStart start_;
  Random random_;
  std::vector<Factors> given_;
  std::map<std::string, std::size_t> by_parameter_;
  mutable std::mutex making_;
  mutable std::map<std::size_t, Factors> factors_;
  mutable std::map<std::size_t, Rows> rows_;
  mutable std::map<std::vector<std::int64_t>, std::vector<std::int32_t>>
      places_;  // by out, in and their number
};

// The base without the part that adapters took: W - s B A for weights with an adapter, the base's for others.
class ReducedBase final : public WeightSource {
 public:
  ReducedBase(std::unique_ptr<WeightSource> whole, std::shared_ptr<const Starts>);

  const WeightSource& whole() const { return *whole_; }
  std::vector<std::string> names() const override { return whole_->names(); }
  bool has(const std::string& name) const override { return whole_->has(name); }
  WeightInfo info(const std::string& name) const override { return whole_->info(name); }
  void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const override;
  StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const override;

 private:
  std::unique_ptr<WeightSource> whole_;
  std::shared_ptr<const Starts> starts_;
  std::map<std::string, std::size_t> adapters_;  // by the names of the adapted weights
};

// Fills a parameter of an adapter for init true, gaussian or false. Elements are functions of (random, name,
// index).
void initialize(const Parameter&, LoraInit init, Random random, Tensor y, std::int64_t first);

}  // namespace ft::lora
