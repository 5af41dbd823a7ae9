#ifndef STOWAGE_FORMATS_FORMATS_H_
#define STOWAGE_FORMATS_FORMATS_H_

// Files of others: bytes to arrays and images, and back. What is read
// whole is given as bytes; what may be large is opened (formats/safetensors.h).
// What cannot be taken is named, with the values that are there.
//
//   Result<Array> images = ParseIdx(bytes, "train-images-idx3-ubyte");

#include "formats/array.h"
#include "formats/gguf.h"
#include "formats/gzip.h"
#include "formats/image.h"
#include "formats/json_values.h"
#include "formats/npy.h"
#include "formats/numbers.h"
#include "formats/safetensors.h"
#include "formats/weights_file.h"

#endif  // STOWAGE_FORMATS_FORMATS_H_
