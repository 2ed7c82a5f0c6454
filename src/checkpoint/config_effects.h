// Keys of config.json that change a model's output in some architecture without showing in the
// shapes of its tensors, with the values at which they change nothing. A family that supports a key
// reads it; config_check_unread refuses the rest. Found by reading the configuration classes and
// models of transformers and the configs of published checkpoints.
#ifndef CHECKPOINT_CONFIG_EFFECTS_H
#define CHECKPOINT_CONFIG_EFFECTS_H

enum { // values at which a key has no effect; null, [] and {} never have one
    NEUTRAL_FALSE = 1,
    NEUTRAL_TRUE = 2,
    NEUTRAL_ZERO = 4,
    NEUTRAL_ONE = 8,
};

struct config_effect {
    const char *key;
    int neutral;
    const char *text; // the string that is neutral, or NULL
};

extern const struct config_effect config_effects[]; // ends with a NULL key

#endif
