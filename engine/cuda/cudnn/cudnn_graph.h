// Graphs of operations for cuDNN's backend, built descriptor by descriptor, and plans that run them. cuDNN
// fuses patterns that it recognises: the order of operations is part of the pattern (NVIDIA's documentation
// of its backend, "fused flash attention").
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cuda/cudnn/cudnn.h"

namespace ft::cuda {

class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn&, cudnnBackendDescriptorType_t);
  ~CudnnDescriptor();
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  cudnnBackendDescriptor_t raw() const { return raw_; }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
    check(cudnn_.set(raw_, name, type, static_cast<std::int64_t>(values.size()), values.data()));
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.raw_);
  }
  void finalize() { check(cudnn_.finalize(raw_)); }
  // Returns the number of values written to `values`.
  template <class T>
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::span<T> values) const {
    std::int64_t count = 0;
    check(cudnn_.get(raw_, name, type, static_cast<std::int64_t>(values.size()), &count, values.data()));
    return count;
  }

 private:
  void check(cudnnStatus_t) const;  // throws CudnnRefusal
  const Cudnn& cudnn_;
  cudnnBackendDescriptor_t raw_ = nullptr;
};
using CudnnPart = std::shared_ptr<CudnnDescriptor>;

// cuDNN has no plan for a shape. This is not an error: another kernel computes it.
struct CudnnRefusal {
  std::string why;
};

using Four = std::array<std::int64_t, 4>;

struct CudnnTensor {
  CudnnPart part;
  Four dims, strides;  // in elements
};

struct CudnnPlan {
  CudnnPart plan;
  std::int64_t workspace = 0;   // bytes
  std::vector<CudnnPart> kept;  // descriptors that the plan refers to
};

// Numbers on the GPU, one for each sequence, which limit a product's sizes; null: no limit.
struct CudnnLimits {
  const CudnnTensor *m = nullptr, *n = nullptr, *k = nullptr;
  bool zeros = false;  // rows beyond the limit are 0, else ignored
};

struct CudnnPointwise {
  const CudnnTensor* b = nullptr;     // the second operand
  const CudnnTensor* mask = nullptr;  // mask of a selection
  int axis = -1;                      // axis of an index operation
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
};

class CudnnGraph {
 public:
  explicit CudnnGraph(const Cudnn& f) : cudnn_(f) {}

  // Memory that a run gives under this number. offsets: number of elements before each sequence, which may
  // then begin anywhere; null: the strides determine it.
  CudnnTensor given(std::int64_t id, Four dims, Four strides, cudnnDataType_t,
                    const CudnnTensor* offsets = nullptr);
  CudnnTensor scalar(std::int64_t id);  // an f32 number on the host
  // Values between operations, dense unless strides are given.
  CudnnTensor between(Four dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  CudnnTensor between(Four dims, Four strides, cudnnDataType_t, const CudnnTensor* offsets = nullptr);

  void matmul(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c, const CudnnLimits& = {});
  void pointwise(cudnnPointwiseMode_t, const CudnnTensor& x, const CudnnTensor& y,
                 const CudnnPointwise& = {});
  void reduce(cudnnReduceTensorOp_t, const CudnnTensor& x, const CudnnTensor& y);
  void reshape(const CudnnTensor& x, const CudnnTensor& y);

  // Returns the first deterministic plan. Throws CudnnRefusal if there is none for the device.
  CudnnPlan plan(const CudnnDescriptor& device) const;

 private:
  struct Kind {
    bool between = false, by_value = false;
    const CudnnTensor* offsets = nullptr;
  };
  CudnnTensor tensor(std::int64_t id, Four dims, Four strides, cudnnDataType_t, const Kind&);
  CudnnPart make(cudnnBackendDescriptorType_t type) const {
    return std::make_shared<CudnnDescriptor>(cudnn_, type);
  }
  bool deterministic(const CudnnDescriptor& config) const;
  // Engines and their settings: those that cuDNN's heuristics propose, and a further one.
  std::vector<CudnnPart> proposed(const CudnnDescriptor& graph, const CudnnDescriptor& device) const;
  CudnnPart known(const CudnnDescriptor& graph, const CudnnDescriptor& device) const;
  // Returns nothing if the configuration is not deterministic.
  std::optional<CudnnPlan> plan_with(const CudnnPart& config, const CudnnPart& graph,
                                     const CudnnDescriptor& device) const;

  const Cudnn& cudnn_;
  std::vector<CudnnPart> operations_;
  std::vector<CudnnPart> kept_;
  std::int64_t next_ = 1000;  // next number for a value between operations
};

// The device that plans are made for: the GPU with that index, or a described one (for tests).
CudnnPart cudnn_device(const Cudnn&, int index);
CudnnPart cudnn_device(const Cudnn&, const std::string& json);

}  // namespace ft::cuda
