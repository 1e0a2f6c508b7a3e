#include "tests/cuda_on_cpu/cudnn_graphs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "engine/core/dtype.h"
#include "tests/cuda_on_cpu/streams.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using Four = std::array<std::int64_t, 4>;
using cuda_on_cpu::Fault;

constexpr float kBeyond = std::numeric_limits<float>::quiet_NaN();
int executed = 0;

// A descriptor: the values of its attributes, as bytes.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::byte>> set{};

  bool has(cudnnBackendAttributeName_t name) const { return set.contains(name); }
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const std::vector<std::byte>& bytes = bytes_of(name);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name) const {
    T value;
    std::memcpy(&value, bytes_of(name).data(), sizeof value);
    return value;
  }
  const Descriptor* part(cudnnBackendAttributeName_t name) const {
    return has(name) ? one<const Descriptor*>(name) : nullptr;
  }

 private:
  const std::vector<std::byte>& bytes_of(cudnnBackendAttributeName_t name) const {
    if (!has(name)) throw Fault("cuDNN: an attribute that was not set");
    return set.at(name);
  }
};

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

Four four(const std::vector<std::int64_t>& v) { return {v.at(0), v.at(1), v.at(2), v.at(3)}; }

// All elements of a tensor, by its dimensions.
struct Values {
  Four dims{};
  std::vector<float> at{};

  explicit Values(Four d = {}) : dims(d), at(static_cast<std::size_t>(d[0] * d[1] * d[2] * d[3])) {}
  // Index of an axis of size 1 is ignored: broadcast dimensions and shared heads have one element for all.
  float& operator()(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    const auto index = [&](std::size_t axis, std::int64_t n) { return dims[axis] == 1 ? 0 : n; };
    return at[static_cast<std::size_t>(
        ((index(0, b) * dims[1] + index(1, h)) * dims[2] + index(2, i)) * dims[3] + index(3, j))];
  }
};

template <class F>
void each(const Four& dims, F f) {
  for (std::int64_t b = 0; b < dims[0]; ++b)
    for (std::int64_t h = 0; h < dims[1]; ++h)
      for (std::int64_t i = 0; i < dims[2]; ++i)
        for (std::int64_t j = 0; j < dims[3]; ++j) f(b, h, i, j);
}

// Executes a graph once.
class Run {
 public:
  explicit Run(std::map<std::int64_t, void*> memory) : memory_(std::move(memory)) {}

  void compute(const Descriptor& op) {
    if (op.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) return matmul(op);
    if (op.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return pointwise(op);
    if (op.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) return reduce(op);
    if (op.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) return reshape(op);
    throw Fault("cuDNN: an operation that attention does not have");
  }

 private:
  static Four dims_of(const Descriptor& t) { return four(t.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)); }
  static cudnnDataType_t type_of(const Descriptor& t) {
    return t.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  }
  void* memory_of(const Descriptor& t) const {
    void* p = memory_.at(t.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    const auto aligned = static_cast<std::uintptr_t>(t.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
    if (reinterpret_cast<std::uintptr_t>(p) % aligned != 0 && !by_value(t))
      throw Fault("cuDNN: memory less aligned than was said");
    return p;
  }
  static bool by_value(const Descriptor& t) { return t.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE); }
  static bool between(const Descriptor& t) { return t.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL); }

  // Calls f(place in memory, value) for every element; of a ragged tensor only for the rows that a sequence
  // has.
  template <class F>
  void each_place(const Descriptor& t, F f) {
    const Four dims = dims_of(t), strides = four(t.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES));
    const Descriptor* ragged = t.part(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
    Values offsets = ragged ? read(*ragged) : Values();
    const bool turned = strides[3] > strides[2];
    each(dims, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      std::int64_t first = b * strides[0];
      if (ragged) {
        first = std::int64_t(offsets(b, 0, 0, 0));
        const std::int64_t end = std::int64_t(offsets(b + 1, 0, 0, 0));
        if ((turned ? j * strides[3] : i * strides[2]) >= end - first) return;
      }
      f(first + h * strides[1] + i * strides[2] + j * strides[3], b, h, i, j);
    });
  }

  Values read(const Descriptor& t) {
    if (between(t)) {
      const auto found = between_.find(&t);
      if (found == between_.end()) throw Fault("cuDNN: an operation before what it needs");
      return found->second;
    }
    const void* from = memory_of(t);
    Values v(dims_of(t));
    std::fill(v.at.begin(), v.at.end(), kBeyond);
    each_place(t, [&](std::int64_t at, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      switch (type_of(t)) {
        case CUDNN_DATA_BFLOAT16:
          return void(v(b, h, i, j) = ft::to_float(static_cast<const ft::bf16*>(from)[at]));
        case CUDNN_DATA_HALF:
          return void(v(b, h, i, j) = ft::to_float(static_cast<const ft::f16*>(from)[at]));
        case CUDNN_DATA_INT32:
          return void(v(b, h, i, j) = static_cast<float>(static_cast<const std::int32_t*>(from)[at]));
        default:
          return void(v(b, h, i, j) = static_cast<const float*>(from)[at]);
      }
    });
    return v;
  }

  void write(const Descriptor& t, Values v) {
    if (v.dims != dims_of(t)) throw Fault("cuDNN: a result of other dimensions");
    const cudnnDataType_t type = type_of(t);
    for (float& x : v.at) {
      if (type == CUDNN_DATA_BFLOAT16) x = rounded<ft::bf16>(x);
      if (type == CUDNN_DATA_HALF) x = rounded<ft::f16>(x);
    }
    if (between(t)) {
      between_.insert_or_assign(&t, std::move(v));
      return;
    }
    void* to = memory_of(t);
    each_place(t, [&](std::int64_t at, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      const float x = v(b, h, i, j);
      if (std::isnan(x)) return;
      if (type == CUDNN_DATA_BFLOAT16)
        ft::from_float(static_cast<ft::bf16*>(to)[at], x);
      else if (type == CUDNN_DATA_HALF)
        ft::from_float(static_cast<ft::f16*>(to)[at], x);
      else
        static_cast<float*>(to)[at] = x;
    });
  }
  template <class T>
  static float rounded(float x) {
    T t;
    ft::from_float(t, x);
    return std::isnan(x) ? x : ft::to_float(t);
  }

  void matmul(const Descriptor& op) {
    Values a = read(*op.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
           b = read(*op.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const Descriptor& to = *op.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const auto limits = [&](cudnnBackendAttributeName_t name, std::int64_t all) {
      Values v({a.dims[0], 1, 1, 1});
      std::fill(v.at.begin(), v.at.end(), static_cast<float>(all));
      return op.has(name) ? read(*op.part(name)) : v;
    };
    Values m = limits(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, a.dims[2]),
           n = limits(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, b.dims[3]),
           k = limits(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, a.dims[3]);
    const bool zeros = op.part(CUDNN_ATTR_OPERATION_MATMUL_DESC)->has(CUDNN_ATTR_MATMUL_PADDING_VALUE);
    if (a.dims[3] != b.dims[2]) throw Fault("cuDNN: a product of other dimensions");
    Values c({a.dims[0], a.dims[1], a.dims[2], b.dims[3]});
    const std::int64_t share = a.dims[1] / b.dims[1];
    std::fill(c.at.begin(), c.at.end(), zeros ? 0 : kBeyond);
    for (std::int64_t s = 0; s < a.dims[0]; ++s)
      for (std::int64_t h = 0; h < a.dims[1]; ++h)
        for (std::int64_t i = 0; i < std::int64_t(m(s, 0, 0, 0)); ++i) {
          const std::int64_t columns = std::int64_t(n(s, 0, 0, 0)), terms = std::int64_t(k(s, 0, 0, 0));
          float* row = &c(s, h, i, 0);
          std::fill(row, row + columns, 0.0f);
          for (std::int64_t t = 0; t < terms; ++t) {
            const float left = a(s, h, i, t), *right = &b(s, h / share, t, 0);
            for (std::int64_t j = 0; j < columns; ++j) row[j] += left * right[j];
          }
        }
    write(to, std::move(c));
  }

  void pointwise(const Descriptor& op) {
    const Descriptor& how = *op.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = how.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const auto operand = [&](cudnnBackendAttributeName_t name) {
      return op.has(name) ? read(*op.part(name)) : Values({1, 1, 1, 1});
    };
    Values x = operand(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
           y = operand(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
           mask = operand(CUDNN_ATTR_OPERATION_POINTWISE_TDESC), out(x.dims);
    const std::int64_t axis =
        how.has(CUDNN_ATTR_POINTWISE_AXIS) ? how.one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS) : -1;
    each(x.dims, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      const float p = x(b, h, i, j), q = y(b, h, i, j);
      out(b, h, i, j) = mode == CUDNN_POINTWISE_GEN_INDEX       ? static_cast<float>(axis == 2 ? i : j)
                        : mode == CUDNN_POINTWISE_BINARY_SELECT ? (mask(b, h, i, j) != 0 ? p : q)
                                                                : value_of(mode, p, q);
    });
    write(*op.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC), std::move(out));
  }
  static float value_of(cudnnPointwiseMode_t mode, float p, float q) {
    switch (mode) {
      case CUDNN_POINTWISE_ADD:
        return p + q;
      case CUDNN_POINTWISE_SUB:
        return p - q;
      case CUDNN_POINTWISE_MUL:
        return p * q;
      case CUDNN_POINTWISE_DIV:
        return p / q;
      case CUDNN_POINTWISE_EXP:
        return std::exp(p);
      case CUDNN_POINTWISE_LOG:
        return std::log(p);
      case CUDNN_POINTWISE_CMP_GE:
        return p >= q;
      case CUDNN_POINTWISE_CMP_GT:
        return p > q;
      case CUDNN_POINTWISE_CMP_LT:
        return p < q;
      case CUDNN_POINTWISE_LOGICAL_AND:
        return p != 0 && q != 0;
      default:
        throw Fault("cuDNN: a pointwise operation that attention does not have");
    }
  }

  // Reduces along the last dimension, or over neighbouring heads.
  void reduce(const Descriptor& op) {
    const auto by = op.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                        ->one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    const Descriptor& to = *op.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    Values x = read(*op.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)), y(dims_of(to));
    const bool most = by == CUDNN_REDUCE_TENSOR_MAX;
    std::fill(y.at.begin(), y.at.end(), most ? -std::numeric_limits<float>::infinity() : 0);
    const std::int64_t share = x.dims[1] / y.dims[1];
    each(x.dims, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      float &into = y(b, h / share, i, j), p = x(b, h, i, j);
      into = most ? std::max(into, p) : into + p;
    });
    write(to, std::move(y));
  }

  void reshape(const Descriptor& op) {
    Values x = read(*op.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    const Descriptor& to = *op.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    Values y(dims_of(to));
    if (y.dims != Four{x.dims[0], x.dims[1], x.dims[3], x.dims[2]})
      throw Fault("cuDNN: only turned matrices are expected");
    each(y.dims, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      y(b, h, i, j) = x(b, h, j, i);
    });
    write(to, std::move(y));
  }

  std::map<std::int64_t, void*> memory_;
  std::map<const Descriptor*, Values> between_;
};

// Returns the graph of a plan: the configuration holds it in place of NVIDIA's engine.
const Descriptor& graph_of(const Descriptor& plan) {
  return *plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->part(CUDNN_ATTR_ENGINECFG_ENGINE);
}

// Returns the workspace of a gradient: 2 bytes for each pair of a row and a key, as deterministic gradients
// take.
std::int64_t workspace_of(const Descriptor& plan) {
  const auto operations = graph_of(plan).all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  constexpr std::size_t kForward = 20;  // operations, at most
  std::int64_t most = 0;
  if (operations.size() > kForward)
    for (const Descriptor* op : operations)
      if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
        const auto d =
            op->part(CUDNN_ATTR_OPERATION_MATMUL_CDESC)->all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
        most = std::max(most, 2 * d[0] * d[1] * d[2] * d[3]);
      }
  return most;
}

cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* d) {
  return *d = new Descriptor{type}, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t destroy(cudnnBackendDescriptor_t d) {
  return delete static_cast<Descriptor*>(d), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  const auto* bytes = static_cast<const std::byte*>(values);
  static_cast<Descriptor*>(d)->set[name].assign(bytes,
                                                bytes + static_cast<std::size_t>(count) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t get(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t,
                  std::int64_t, std::int64_t* count, void* values) {
  const auto& from = *static_cast<const Descriptor*>(d);
  *count = name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE ? 0 : 1;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
    *static_cast<std::int64_t*>(values) = workspace_of(from);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    Descriptor* config = *static_cast<Descriptor**>(values);
    config->set[CUDNN_ATTR_ENGINECFG_ENGINE] = from.set.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_of,
                      cudnnBackendDescriptor_t pack_of) {
  const auto& plan = *static_cast<const Descriptor*>(plan_of);
  const auto& pack = *static_cast<const Descriptor*>(pack_of);
  const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  auto* workspace = pack.one<std::byte*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  // Scalars in the host's memory are read now; device memory is read when the run executes.
  const auto numbers = std::make_shared<std::vector<float>>(ids.size());
  std::map<std::int64_t, void*> memory;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool device = cuda_on_cpu::on_device(pointers[i], 1);
    if (!device) (*numbers)[i] = *static_cast<float*>(pointers[i]);
    memory[ids[i]] = device ? pointers[i] : &(*numbers)[i];
  }
  const std::int64_t bytes = workspace_of(plan);
  if (bytes > 0 && !cuda_on_cpu::on_device(workspace, static_cast<std::size_t>(bytes)))
    throw Fault("cuDNN: a workspace beyond device memory");
  cuda_on_cpu::push(handle->stream, {[=, &plan] {
                      const auto all = graph_of(plan).all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
                      std::memset(workspace, 0xff, static_cast<std::size_t>(bytes));
                      Run run(memory);
                      for (const Descriptor* op : all) run.compute(*op);
                      (void)numbers;
                    }});
  ++executed;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

namespace cuda_on_cpu {
int cudnn_runs() { return executed; }
}  // namespace cuda_on_cpu

namespace ft::cuda {

const Cudnn* cudnn() {
  static const Cudnn functions{
      .version = [] { return std::size_t{91900}; },
      .error_text = [](cudnnStatus_t) { return "an error"; },
      .create_handle = [](cudnnHandle_t* h) { return *h = new cudnnContext, CUDNN_STATUS_SUCCESS; },
      .destroy_handle = [](cudnnHandle_t h) { return delete h, CUDNN_STATUS_SUCCESS; },
      .set_stream = [](cudnnHandle_t h, cudaStream_t s) { return h->stream = s, CUDNN_STATUS_SUCCESS; },
      .create = create,
      .destroy = destroy,
      .set = set,
      .get = get,
      .finalize = [](cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; },
      .execute = execute};
  return &functions;
}

}  // namespace ft::cuda
