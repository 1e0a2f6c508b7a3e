# What the CUDA backend is made of, for the build with NVIDIA's compiler and for tests/cuda_on_cpu.
set(dir ${PROJECT_SOURCE_DIR}/engine/cuda)
set(ft_cuda_host ${dir}/copies.cpp ${dir}/cuda_ops.cpp ${dir}/cudnn/cudnn_runs.cpp ${dir}/event_stamps.cpp ${dir}/gemm/fp8_products.cpp ${dir}/gemm/gemm.cpp ${dir}/gemm/gemm_file.cpp ${dir}/gemm/gemm_plan.cpp ${dir}/gemm/gemm_timing.cpp ${dir}/gpu.cpp ${dir}/gpu_attention.cpp ${dir}/gpu_depots.cpp
    ${dir}/nccl/nccl_communicator.cpp ${dir}/nccl/nccl_queue.cpp ${dir}/gemm/one_pass.cpp ${dir}/gemm/products.cpp ${dir}/shared_memory.cpp ${dir}/status.cpp ${dir}/gemm/tensor_maps.cpp ${dir}/wrong_indices.cpp)
set(ft_cuda_kernels attention attention_merge attention_mma attention_mma_bias attention_mma_grad attention_ranges block_products causal_conv columns compressed delta_gates delta_operand_grads delta_rule delta_rule_grad divergence elementwise fake_quantize four_bit fp8 gated layer_norm logit_statistics loss narrow_grad norm optimizer padded rescale rope routing rows whole_optimizer)
list(TRANSFORM ft_cuda_kernels PREPEND ${dir}/kernels/)
list(TRANSFORM ft_cuda_kernels APPEND .cu)
set(ft_cuda_hopper_kernels ${dir}/kernels/attention_wgmma.cu ${dir}/kernels/attention_wgmma_grad.cu ${dir}/kernels/fp8_rows.cu ${dir}/kernels/products_wgmma.cu)
