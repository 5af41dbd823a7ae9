#ifndef STOWAGE_GPU_BULK_COPY_CUDA_H_
#define STOWAGE_GPU_BULK_COPY_CUDA_H_

// The words of gpu/bulk_copy.h in CUDA.
// IWYU pragma: private, include "gpu/bulk_copy.h"

namespace stowage::gpu {

STOWAGE_DEVICE void InitBarrier(CopyBarrier* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(
                   internal::SharedAddress(barrier))
               : "memory");
}

STOWAGE_DEVICE void ExpectBytes(CopyBarrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   internal::SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}

// To the block's own shared memory: it is in a cluster by itself.
STOWAGE_DEVICE void CopyBox(void* shared, const TensorMap& map, BoxStart start,
                            CopyBarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
          internal::SharedAddress(shared)),
      "l"(&map), "r"(start.at[0]), "r"(start.at[1]), "r"(start.at[2]),
      "r"(start.at[3]), "r"(internal::SharedAddress(barrier))
      : "memory");
}

STOWAGE_DEVICE void AwaitBytes(CopyBarrier* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(internal::SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_BULK_COPY_CUDA_H_
