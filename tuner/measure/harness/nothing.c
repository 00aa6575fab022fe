/* A candidate that does nothing, to see whether the simulator runs and how it is contained. */
int hvxtune_nothing(void) { return 0; }
