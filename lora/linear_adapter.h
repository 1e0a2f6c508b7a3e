// An adapter of a Linear, of any kind, with the parameters that its files hold.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/layers/linear.h"
#include "lora/config.h"

namespace ft::lora {

// Returns a parameter's values in the host's memory, a trained parameter's in f32. They stay valid during the
// call that uses them.
using ParameterValues = std::function<Tensor(const Parameter&)>;
// Returns the type in which a parameter of a model with adapters is read: f32, but places stay whole numbers.
inline DType read_type(const Parameter& p) { return p.dtype == DType::i32 ? DType::i32 : DType::f32; }

// The columns that a rank has of the input of a Linear cut into rows: from `first` on, of `columns`; 0: all.
struct InputPart {
  std::int64_t first = 0, columns = 0;
};
// y = dropout(x) with masks that depend on the rows' numbers; the same for a gradient.
void drop_input(Ctx&, Tensor y, Tensor x, float p, Random, InputPart);

class LinearAdapter : public Adapter {
 public:
  LinearAdapter(std::int64_t out, std::int64_t in) : weight_{out, in} {}

  // Returns the shape (out, in) of the complete weight, also if ranks share it.
  const Shape& weight_shape() const { return weight_; }
  // Returns the trained parameters, in the order of the adapter's files.
  virtual std::vector<Parameter*> trained() = 0;
  // Returns the frozen parameters that the adapter's files hold too.
  virtual std::vector<Parameter*> fixed() { return {}; }
  // Returns the fault of values of a fixed parameter that a file has, in the host's memory; "": none.
  virtual std::string fault_of(const Tensor&) const { return ""; }
  // Returns the parameter that makes the adapter change nothing while it is zero; null: there is none.
  virtual const Parameter* neutral_at_zero() const = 0;
  // Reads elements of a trained parameter from `first` on, as PEFT begins them. Elements are functions of
  // (random, name, index).
  virtual void initialize(const Parameter&, LoraInit, Random, Tensor y, std::int64_t first) const = 0;
  // Changes the weight y, f32 in the host's memory, as the adapter changes the Linear. turned: y is (in,
  // out).
  virtual void merge(Ops&, const ParameterValues&, Tensor y, bool turned) const = 0;
  // True if the Linear needs a bias to merge the adapter into. merge_bias() changes its values, f32 (out) in
  // the host's memory.
  virtual bool changes_bias() const { return false; }
  virtual void merge_bias(const ParameterValues&, Tensor) const {}

 private:
  Shape weight_;
};

}  // namespace ft::lora
