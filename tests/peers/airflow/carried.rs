//! What Airflow makes of the exit codes of trueup: a stand-in of the program answers as it is told.
