// What host code is told of the GPU: every field of cudaDeviceProp, from the attributes that the judge knows. A field that
// is left empty here and nowhere else would tell host code that a judge is looking.
#pragma once
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "recording.h"

namespace recording {

inline int attribute(cudaDeviceAttr which, int otherwise) {
  auto found = request.attributes.find((int)which);
  return found == request.attributes.end() ? otherwise : found->second;
}

inline void fill_properties(cudaDeviceProp* p) {
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "%s", request.gpu_name.c_str());
  // No GPU is without an identifier; which one it has is nobody's business, so it is another in every recording.
  uint64_t drawn[2] = {request.scratch * 0x9e3779b97f4a7c15ull + 1, (request.scratch ^ request.stream) * 0xbf58476d1ce4e5b9ull + 3};
  memcpy(&p->uuid, drawn, sizeof p->uuid);
  p->totalGlobalMem = request.device_memory;
  auto put = [](auto& field, int which, int otherwise = 0) {
    field = (std::remove_reference_t<decltype(field)>)attribute((cudaDeviceAttr)which, otherwise);
  };
  auto put_all = [&](auto& fields, std::initializer_list<int> which) {
    size_t at = 0;
    for (int one : which) put(fields[at++], one);
  };
  put(p->multiProcessorCount, cudaDevAttrMultiProcessorCount, 1);
  put(p->maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock, 1024);
  put(p->maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor, 2048);
  put(p->maxBlocksPerMultiProcessor, cudaDevAttrMaxBlocksPerMultiprocessor, 32);
  put(p->sharedMemPerBlock, cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10);
  put(p->sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 48 << 10);
  put(p->sharedMemPerMultiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 48 << 10);
  put(p->reservedSharedMemPerBlock, cudaDevAttrReservedSharedMemoryPerBlock, 1 << 10);
  put(p->warpSize, cudaDevAttrWarpSize, 32);
  put(p->major, cudaDevAttrComputeCapabilityMajor, 9);
  put(p->minor, cudaDevAttrComputeCapabilityMinor);
  put(p->regsPerBlock, cudaDevAttrMaxRegistersPerBlock, 65536);
  put(p->regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor, 65536);
  put(p->totalConstMem, cudaDevAttrTotalConstantMemory, 65536);
  put(p->cooperativeLaunch, cudaDevAttrCooperativeLaunch, 1);
  put(p->concurrentKernels, cudaDevAttrConcurrentKernels, 1);
  put(p->l2CacheSize, cudaDevAttrL2CacheSize);
  put(p->persistingL2CacheMaxSize, cudaDevAttrMaxPersistingL2CacheSize);
  put(p->accessPolicyMaxWindowSize, cudaDevAttrMaxAccessPolicyWindowSize);
  put(p->memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth);
  put(p->memPitch, cudaDevAttrMaxPitch);
  put(p->textureAlignment, cudaDevAttrTextureAlignment);
  put(p->texturePitchAlignment, cudaDevAttrTexturePitchAlignment);
  put(p->surfaceAlignment, cudaDevAttrSurfaceAlignment);
  put(p->integrated, cudaDevAttrIntegrated);
  put(p->canMapHostMemory, cudaDevAttrCanMapHostMemory);
  put(p->ECCEnabled, cudaDevAttrEccEnabled);
  put(p->pciBusID, cudaDevAttrPciBusId);
  put(p->pciDeviceID, cudaDevAttrPciDeviceId);
  put(p->pciDomainID, cudaDevAttrPciDomainId);
  put(p->tccDriver, cudaDevAttrTccDriver);
  put(p->asyncEngineCount, cudaDevAttrAsyncEngineCount);
  put(p->unifiedAddressing, cudaDevAttrUnifiedAddressing);
  put(p->streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported);
  put(p->globalL1CacheSupported, cudaDevAttrGlobalL1CacheSupported);
  put(p->localL1CacheSupported, cudaDevAttrLocalL1CacheSupported);
  put(p->managedMemory, cudaDevAttrManagedMemory);
  put(p->isMultiGpuBoard, cudaDevAttrIsMultiGpuBoard);
  put(p->multiGpuBoardGroupID, cudaDevAttrMultiGpuBoardGroupID);
  put(p->hostNativeAtomicSupported, cudaDevAttrHostNativeAtomicSupported);
  put(p->pageableMemoryAccess, cudaDevAttrPageableMemoryAccess);
  put(p->concurrentManagedAccess, cudaDevAttrConcurrentManagedAccess);
  put(p->computePreemptionSupported, cudaDevAttrComputePreemptionSupported);
  put(p->canUseHostPointerForRegisteredMem, cudaDevAttrCanUseHostPointerForRegisteredMem);
  put(p->pageableMemoryAccessUsesHostPageTables, cudaDevAttrPageableMemoryAccessUsesHostPageTables);
  put(p->directManagedMemAccessFromHost, cudaDevAttrDirectManagedMemAccessFromHost);
  put(p->hostRegisterSupported, cudaDevAttrHostRegisterSupported);
  put(p->sparseCudaArraySupported, cudaDevAttrSparseCudaArraySupported);
  put(p->hostRegisterReadOnlySupported, cudaDevAttrHostRegisterReadOnlySupported);
  put(p->timelineSemaphoreInteropSupported, cudaDevAttrTimelineSemaphoreInteropSupported);
  put(p->memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported);
  put(p->gpuDirectRDMASupported, cudaDevAttrGPUDirectRDMASupported);
  put(p->gpuDirectRDMAFlushWritesOptions, cudaDevAttrGPUDirectRDMAFlushWritesOptions);
  put(p->gpuDirectRDMAWritesOrdering, cudaDevAttrGPUDirectRDMAWritesOrdering);
  put(p->memoryPoolSupportedHandleTypes, cudaDevAttrMemoryPoolSupportedHandleTypes);
  put(p->deferredMappingCudaArraySupported, cudaDevAttrDeferredMappingCudaArraySupported);
  put(p->ipcEventSupported, cudaDevAttrIpcEventSupport);
  put(p->clusterLaunch, cudaDevAttrClusterLaunch);
  put(p->maxTexture1D, cudaDevAttrMaxTexture1DWidth);
  put(p->maxTexture1DMipmap, cudaDevAttrMaxTexture1DMipmappedWidth);
  put(p->maxTextureCubemap, cudaDevAttrMaxTextureCubemapWidth);
  put(p->maxSurface1D, cudaDevAttrMaxSurface1DWidth);
  put(p->maxSurfaceCubemap, cudaDevAttrMaxSurfaceCubemapWidth);
  put_all(p->maxThreadsDim, {cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ});
  put_all(p->maxGridSize, {cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ});
  put_all(p->maxTexture2D, {cudaDevAttrMaxTexture2DWidth, cudaDevAttrMaxTexture2DHeight});
  put_all(p->maxTexture2DMipmap, {cudaDevAttrMaxTexture2DMipmappedWidth, cudaDevAttrMaxTexture2DMipmappedHeight});
  put_all(p->maxTexture2DLinear, {cudaDevAttrMaxTexture2DLinearWidth, cudaDevAttrMaxTexture2DLinearHeight,
                                  cudaDevAttrMaxTexture2DLinearPitch});
  put_all(p->maxTexture2DGather, {cudaDevAttrMaxTexture2DGatherWidth, cudaDevAttrMaxTexture2DGatherHeight});
  put_all(p->maxTexture3D, {cudaDevAttrMaxTexture3DWidth, cudaDevAttrMaxTexture3DHeight, cudaDevAttrMaxTexture3DDepth});
  put_all(p->maxTexture3DAlt, {cudaDevAttrMaxTexture3DWidthAlt, cudaDevAttrMaxTexture3DHeightAlt,
                               cudaDevAttrMaxTexture3DDepthAlt});
  put_all(p->maxTexture1DLayered, {cudaDevAttrMaxTexture1DLayeredWidth, cudaDevAttrMaxTexture1DLayeredLayers});
  put_all(p->maxTexture2DLayered, {cudaDevAttrMaxTexture2DLayeredWidth, cudaDevAttrMaxTexture2DLayeredHeight,
                                   cudaDevAttrMaxTexture2DLayeredLayers});
  put_all(p->maxTextureCubemapLayered, {cudaDevAttrMaxTextureCubemapLayeredWidth, cudaDevAttrMaxTextureCubemapLayeredLayers});
  put_all(p->maxSurface2D, {cudaDevAttrMaxSurface2DWidth, cudaDevAttrMaxSurface2DHeight});
  put_all(p->maxSurface3D, {cudaDevAttrMaxSurface3DWidth, cudaDevAttrMaxSurface3DHeight, cudaDevAttrMaxSurface3DDepth});
  put_all(p->maxSurface1DLayered, {cudaDevAttrMaxSurface1DLayeredWidth, cudaDevAttrMaxSurface1DLayeredLayers});
  put_all(p->maxSurface2DLayered, {cudaDevAttrMaxSurface2DLayeredWidth, cudaDevAttrMaxSurface2DLayeredHeight,
                                   cudaDevAttrMaxSurface2DLayeredLayers});
  put_all(p->maxSurfaceCubemapLayered, {cudaDevAttrMaxSurfaceCubemapLayeredWidth, cudaDevAttrMaxSurfaceCubemapLayeredLayers});
}

}  // namespace recording
