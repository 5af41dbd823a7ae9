#ifndef STOWAGE_FORMATS_FORMATS_H_
#define STOWAGE_FORMATS_FORMATS_H_

// The umbrella header of formats/, which reads and writes files of arrays, images, weights and
// JSON. Small files are parsed from bytes in memory. Large files are opened and read on demand.
//
//   Result<Array> images = ParseIdx(bytes, "train-images-idx3-ubyte");

#include "formats/array.h"
#include "formats/gguf.h"
#include "formats/gzip.h"
#include "formats/image.h"
#include "formats/json.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "formats/weights_file.h"

#endif  // STOWAGE_FORMATS_FORMATS_H_
