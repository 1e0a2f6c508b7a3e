// Collectives between GPUs by NCCL, concurrent with the computation: they have a separate stream. Events make
// this stream wait for the computation, and the computation for it; the host waits for neither. Ids, texts,
// heartbeats and the blame for a lost rank use the hosts' connections.
//
// NCCL chooses the order of sums by the sizes and the machines: it is the same in every run, but not rank
// order. For this reason sums within NVLink's switches (NVLS) are turned off, unless the user has set
// NCCL_ALGO or NCCL_NVLS_ENABLE.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/ops/ops.h"
#include "engine/ranks/mesh_communicator.h"

namespace ft {

// "2.28.9" if this machine has NCCL 2.18 or later and this build can use it; else empty.
std::optional<std::string> nccl_version();

// ops: made by make_cuda_ops, without another GPU communicator. All ranks call this at the same time. The
// hosts reach a verdict (engine/ranks/watch.h), which ends every wait for the GPU, if no collective ends for
// `seconds`, a rank is lost, or NCCL reports an error. wire: type in which sums of f32 are sent; NCCL also
// adds in this type, and so rounds after every rank's part. bucket: number of elements that are sent so at
// once. Throws UserError (hardware) if NCCL does not start.
std::unique_ptr<Communicator> make_nccl_communicator(Ops& ops, std::unique_ptr<MeshCommunicator> hosts,
                                                     double seconds, const Wire& wire = {},
                                                     std::int64_t bucket = MeshCommunicator::kAnyBucket);

}  // namespace ft
