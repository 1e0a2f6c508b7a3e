// Compiles only if engine/cuda/nccl/nccl.h agrees with NVIDIA's header.
#include <nccl.h>

#include <type_traits>

#include "engine/cuda/nccl/nccl.h"

namespace ft::cuda {
namespace {

template <auto theirs, auto ours>
constexpr bool same_number = static_cast<int>(theirs) == static_cast<int>(ours);

static_assert(same_number<ncclSuccess, NcclResult::success> &&
              same_number<ncclInProgress, NcclResult::in_progress> &&
              same_number<ncclInvalidUsage, NcclResult::invalid_usage> &&
              same_number<ncclRemoteError, NcclResult::remote_error> && same_number<ncclSum, NcclOp::sum> &&
              same_number<ncclUint8, NcclType::u8> && same_number<ncclFloat32, NcclType::f32> &&
              same_number<ncclFloat64, NcclType::f64> && same_number<ncclFloat16, NcclType::f16> &&
              same_number<ncclBfloat16, NcclType::bf16>);
static_assert(sizeof(ncclResult_t) == sizeof(NcclResult) && sizeof(ncclDataType_t) == sizeof(NcclType) &&
              sizeof(ncclUniqueId) == sizeof(NcclId));
// Later versions have more members at the end; the size tells NCCL how many.
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t) &&
              offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version) &&
              offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName) &&
              offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(NCCL_CONFIG_UNDEF_INT == NcclConfig::kUsual);

// Returns true if both functions have the same number of parameters.
template <class F>
constexpr int arity = 0;
template <class R, class... A>
constexpr int arity<R (*)(A...)> = static_cast<int>(sizeof...(A));
template <auto theirs, auto ours>
constexpr bool same_call =
    arity<decltype(theirs)> == arity<std::remove_reference_t<decltype(std::declval<Nccl>().*ours)>>;

static_assert(same_call<&ncclGetVersion, &Nccl::version> && same_call<&ncclGetUniqueId, &Nccl::unique_id> &&
              same_call<&ncclCommInitRankConfig, &Nccl::init> && same_call<&ncclCommSplit, &Nccl::split> &&
              same_call<&ncclCommFinalize, &Nccl::finalize> && same_call<&ncclCommDestroy, &Nccl::destroy> &&
              same_call<&ncclCommAbort, &Nccl::abort> &&
              same_call<&ncclCommGetAsyncError, &Nccl::async_error> &&
              same_call<&ncclAllGather, &Nccl::all_gather> &&
              same_call<&ncclReduceScatter, &Nccl::reduce_scatter> &&
              same_call<&ncclAllReduce, &Nccl::all_reduce> && same_call<&ncclSend, &Nccl::send> &&
              same_call<&ncclRecv, &Nccl::receive> && same_call<&ncclGroupStart, &Nccl::group_start> &&
              same_call<&ncclGroupEnd, &Nccl::group_end>);

}  // namespace
}  // namespace ft::cuda
