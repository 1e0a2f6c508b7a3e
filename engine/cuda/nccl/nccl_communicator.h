// Collectives between GPUs by NCCL, concurrent with the computation: they have a stream of their own, which
// waits for the computation, and is waited for, by events; the host waits for neither. Ids, texts, heartbeats
// and the blame for a lost rank stay with the hosts' connections.
//
// Sums are in the order that NCCL chooses for the sizes and the machines: the same in every run, but not rank
// order. For that the sums within NVLink's switches (NVLS) are left out, unless the user has set NCCL_ALGO or
// NCCL_NVLS_ENABLE.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/ops/ops.h"
#include "engine/ranks/mesh_communicator.h"

namespace ft {

// "2.28.9" where this machine has NCCL 2.18 or later and this ft can use it.
std::optional<std::string> nccl_version();

// ops: of make_cuda_ops, and no other GPU communicator's. All ranks call it at the same time. A collective
// that has not ended after `seconds` without any other ending, a rank that is lost and an error of NCCL's
// become the hosts' verdict (engine/ranks/watch.h), which ends whatever waits for the GPU. wire: how sums of
// f32 travel; NCCL adds up in that type, which rounds after every rank's part. bucket: elements that do so at
// once. UserError(Exit::hardware) when NCCL does not start.
std::unique_ptr<Communicator> make_nccl_communicator(Ops& ops, std::unique_ptr<MeshCommunicator> hosts,
                                                     double seconds, const Wire& wire = {},
                                                     std::int64_t bucket = MeshCommunicator::kAnyBucket);

}  // namespace ft
