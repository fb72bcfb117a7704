"""What a session says to people and to programs: its log, its reports, its pages."""
