/* What a model file is to the rest of model/: its weights, and the architecture that reads them. */
#ifndef MODEL_MODEL_FILE_H
#define MODEL_MODEL_FILE_H

#include "model/weights/weights.h"

struct model_file {
    struct weights weights;
};

#endif
