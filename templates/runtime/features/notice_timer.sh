set_timer() { beside remind "$((WALLTIME - NOTICE))"; }    # no scheduler says when
